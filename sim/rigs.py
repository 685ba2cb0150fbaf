"""Where a scenario can be run, and one run of it with its verdict."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from sim.report.run import Run
from sim.scenario.measures import judge
from sim.scenario.records import Protection, Scenario
from sim.scenario.trace import Trace

Rig = Callable[[Scenario, frozenset[Protection], Path], Trace]


def _simulated(scenario: Scenario, without: frozenset[Protection], _: Path) -> Trace:
    from sim.simulated.rig import run_simulated  # noqa: PLC0415 - imported where it is used

    return run_simulated(scenario, without)


def _local(scenario: Scenario, without: frozenset[Protection], folder: Path) -> Trace:
    from sim.local.rig import run_local  # noqa: PLC0415 - imported where it is used

    assert not without, "see check"
    return run_local(scenario, folder)


RIGS: Mapping[str, Rig] = {"sim": _simulated, "local": _local}


def check(scenario: Scenario, rig: str, without: Sequence[Protection]) -> None:
    """See that a scenario can be run there, like this.

    Raises:
        ConfigError: it cannot.
    """
    if rig not in scenario.rigs:
        raise ConfigError(f"{scenario.name} is not for rig {rig}; it is for {', '.join(scenario.rigs)}")
    if without and rig != "sim":
        raise ConfigError("protections are taken away in rig sim alone: a real device has no switch for that")


def run(scenario: Scenario, rig: str, without: Sequence[Protection], folder: Path) -> Run:
    """Run a scenario and judge it.

    Args:
        scenario: that says that it can be run there.
        rig: `sim` or `local`.
        without: protections that are taken away.
        folder: for what the rig leaves behind: logs and state.

    Raises:
        ConfigError: it cannot be run there, or not like this.
    """
    check(scenario, rig, without)
    began, trace, broke = time.monotonic(), None, ""
    try:
        trace = RIGS[rig](scenario, frozenset(without), folder)
    except ConfigError:
        raise
    except EdgeRuntimeError as error:
        broke = str(error)
    expected = [one for one in scenario.expect if not one.rigs or rig in one.rigs]
    findings = tuple(judge(trace, one) for one in expected) if trace is not None else ()
    return Run(scenario, rig, tuple(without), findings, trace, broke, time.monotonic() - began)
