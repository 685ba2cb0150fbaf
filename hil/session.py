"""One run of the plan: what was measured, what became of the tests, and whether the rig stays in rotation."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime import __version__
from edge_runtime.clock import Clock
from hil.faults import FaultBits
from hil.measurement import Limits, Measurement, judged
from hil.problems import BadRig
from hil.report.records import RunReport, TestOutcome
from hil.rig import Rig
from hil.rig_file import RigFile
from hil.rotation import Sickness, leave
from sim.report.run import machine_facts

_WORST = ("passed", "absent", "failed")
_MOST_REASON = 600


@dataclass(slots=True)
class Session:
    """What is kept while the plan runs.

    Attributes:
        file: of the rig.
        state: where it is written down that a rig is out of rotation.
        clock: of this machine, for labels.
        rig: once it is open.
        measurements, outcomes: so far.
        sick: why the rig has left rotation; empty while it has not.
        unread: fault bits that nobody could ask for.
        started: when.
    """

    file: RigFile
    state: Path
    clock: Clock
    rig: Rig | None = None
    measurements: list[Measurement] = field(default_factory=list)
    outcomes: dict[str, TestOutcome] = field(default_factory=dict)
    sick: str = ""
    unread: dict[str, None] = field(default_factory=dict)
    started: str = ""
    device: dict[str, str] = field(default_factory=dict)

    def measure(self, test: str, name: str, value: float | None, limits: Limits) -> Measurement:
        """Keep a value and hold it against its limits, or against those of the rig's file.

        Raises:
            BadRig: the rig's file has limits in another unit, or this was measured before.
        """
        own = self.file.limits.get(name, limits)
        if own.unit != limits.unit:
            raise BadRig(
                f"limits.{name} of rig {self.file.name} is in {own.unit}, and it is in {limits.unit}"
            )
        if any(one.name == name for one in self.measurements):
            raise BadRig(f"{name} was measured before: a name stands for one value of a run")
        found = judged(name, test, value, own)
        self.measurements.append(found)
        return found

    def measured_by(self, test: str) -> bool:
        """Whether a test measured anything."""
        return any(one.test == test for one in self.measurements)

    def ended(self, test: str, outcome: str, reason: str, seconds: float) -> None:
        """A part of a test is over; the worst of its parts counts."""
        before = self.outcomes.get(test)
        if before is not None:
            seconds += before.seconds
            if _WORST.index(before.outcome) >= _WORST.index(outcome):
                outcome, reason = before.outcome, before.reason
        self.outcomes[test] = TestOutcome.model_validate(
            {
                "test": test[-200:],
                "outcome": outcome,
                "reason": " ".join(reason.split())[:_MOST_REASON],
                "seconds": round(seconds, 3),
            }
        )

    def leaves(self, test: str, reason: str) -> None:
        """The rig is sick: nobody runs anything on it before a person has looked."""
        if not self.sick:
            self.sick = " ".join(reason.split())
            since = self.clock.wall().isoformat()
            leave(self.state, self.file.name, Sickness(since=since, test=test, reason=self.sick[:2000]))

    def saw(self, bits: FaultBits) -> FaultBits:
        """Remember what could not be asked."""
        self.unread.update(dict.fromkeys(bits.unread))
        return bits

    def report(self, selected: str) -> RunReport:
        """Everything, to be signed."""
        file, board = self.file, self.file.board
        return RunReport(
            rig=file.name,
            kind=file.kind,
            board=board.name,
            jetpack=board.jetpack,
            model=board.model,
            started=self.started or self.clock.wall().isoformat(),
            synced=self.clock.wall().synced,
            revision=__version__,
            machine={**machine_facts(), "cores": str(os.cpu_count() or 0)},
            device=self.device,
            selected=selected[:200],
            healthy=not self.sick,
            tests=tuple(self.outcomes.values()),
            measurements=tuple(self.measurements),
            unread=tuple(self.unread),
        )
