"""Where a scenario can be run, and one run of it with its verdict."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from sim.namespace import may_have_namespaces
from sim.report.run import Run
from sim.scenario.measures import judge
from sim.scenario.protections import WITHOUT
from sim.scenario.records import Protection, Scenario
from sim.scenario.trace import Trace

Rig = Callable[[Scenario, frozenset[Protection], Path], Trace]


def _simulated(scenario: Scenario, without: frozenset[Protection], _: Path) -> Trace:
    from sim.simulated.rig import run_simulated  # noqa: PLC0415 - imported where it is used

    return run_simulated(scenario, without)


def _local(scenario: Scenario, without: frozenset[Protection], folder: Path) -> Trace:
    from sim.local.rig import run_local  # noqa: PLC0415 - imported where it is used

    return run_local(scenario, folder, without)


def _in_namespace(scenario: Scenario, without: frozenset[Protection], folder: Path) -> Trace:
    from sim.local.rig import run_local  # noqa: PLC0415 - imported where it is used

    return run_local(scenario, folder, without, in_namespace=True)


RIGS: Mapping[str, Rig] = {"sim": _simulated, "local": _local}
NETWORKS = ("proxy", "namespace")
"""Of rig `local`: a proxy on loopback, or a network namespace of the device's own."""


def check(scenario: Scenario, rig: str, without: Sequence[Protection], network: str = NETWORKS[0]) -> None:
    """See that a scenario can be run there, like this.

    Raises:
        ConfigError: it cannot.
    """
    if rig not in scenario.rigs:
        why = next((why for name, why in scenario.not_on.items() if name == rig), "")
        raise ConfigError(f"{scenario.name} is not for rig {rig}: {why}")
    if network != NETWORKS[0] and (rig != "local" or not may_have_namespaces()):
        raise ConfigError(
            f"--network {network} is for rig local on a machine with root, iproute2, veth and tbf"
        )
    for protection in without:
        if rig not in WITHOUT[protection]:
            able = ", ".join(WITHOUT[protection])
            raise ConfigError(f"rig {rig} cannot do without {protection}; rig {able} can")


def run(
    scenario: Scenario,
    rig: str,
    without: Sequence[Protection],
    folder: Path,
    network: str = NETWORKS[0],
) -> Run:
    """Run a scenario and judge it.

    Args:
        scenario: that says that it can be run there.
        rig: `sim` or `local`.
        without: protections that are taken away.
        folder: for what the rig leaves behind: logs and state.
        network: of `NETWORKS`; for rig `local`.

    Raises:
        ConfigError: it cannot be run there, or not like this.
    """
    check(scenario, rig, without, network)
    began, trace, broke = time.monotonic(), None, ""
    try:
        start = RIGS[rig] if network == NETWORKS[0] else _in_namespace
        trace = start(scenario, frozenset(without), folder)
    except ConfigError:
        raise
    except EdgeRuntimeError as error:
        broke = str(error)
    expected = [one for one in scenario.expect if not one.rigs or rig in one.rigs]
    findings = tuple(judge(trace, one) for one in expected) if trace is not None else ()
    return Run(scenario, rig, tuple(without), findings, trace, broke, time.monotonic() - began)
