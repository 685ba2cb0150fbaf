"""One finished run, as every report needs it."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edge_runtime import __version__
from sim.scenario.measures import Finding
from sim.scenario.records import Scenario
from sim.scenario.trace import Trace


@dataclass(frozen=True, slots=True)
class Run:
    """A run and its verdict.

    Attributes:
        scenario: that was run.
        rig: where.
        without: protections that were taken away.
        findings: one for each expectation that this rig has.
        trace: None where it broke off.
        broke: why it broke off; empty where it did not.
        wall_s: that it took.
    """

    scenario: Scenario
    rig: str
    without: tuple[str, ...]
    findings: tuple[Finding, ...]
    trace: Trace | None
    broke: str
    wall_s: float

    @property
    def passed(self) -> bool:
        """Whether every expectation was met."""
        return not self.broke and all(finding.met for finding in self.findings)


def machine_facts() -> dict[str, str]:
    """What the runs ran on."""
    return {
        "edge-runtime": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
    }


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything that was expected and measured; curves are in the page."""
    return {
        "version": 1,
        "machine": machine_facts(),
        "passed": all(run.passed for run in runs),
        "runs": [_run(run) for run in runs],
    }


def _run(run: Run) -> dict[str, Any]:
    trace = run.trace or Trace()
    return {
        "scenario": run.scenario.name,
        "rig": run.rig,
        "without": list(run.without),
        "passed": run.passed,
        "broke": run.broke or None,
        "simulated_s": run.scenario.duration,
        "wall_s": round(run.wall_s, 3),
        "expectations": [
            {
                "measure": finding.expected.measure,
                "after": finding.expected.after,
                "states": list(finding.expected.states),
                "condition": finding.expected.condition,
                "at_least": finding.expected.at_least,
                "at_most": finding.expected.at_most,
                "unit": finding.expected.unit,
                "measured": finding.measured,
                "met": finding.met,
            }
            for finding in run.findings
        ],
        "states": [{"at": round(one.at, 3), "state": one.state} for one in trace.changes],
        "faults": [
            {"name": one.name, "text": one.text, "begins": one.begins, "ends": one.ends}
            for one in trace.windows
        ],
        "counts": dict(sorted(trace.counts.items())),
    }
