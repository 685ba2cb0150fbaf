"""Hands the events of state changes to the gate, each after it stands in the flight recorder, and none twice."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.gate import GateStatus
from edge_runtime.monitor.changes import TELLING, Labels, event_of
from edge_runtime.monitor.entries import Stamp
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.protocol import EventRecord

PATIENCE_NS = NS_PER_S // 2
"""An event waits no longer for the flight recorder: a disk that stalls does not keep it back."""


class GatePort(Protocol):
    """What is needed of the gate."""

    def write(self, event: EventRecord, /) -> bool:
        """Take one event; never waits. What is not taken is counted by the gate."""
        ...

    def status(self) -> GateStatus:
        """The gate's numbers."""
        ...


@dataclass(frozen=True, slots=True)
class _Waiting:
    record: FlightRecord
    ticket: int
    since_ns: int


class Announcer:
    """Events on their way from the flight recorder to the gate.

    Args:
        gate: takes them.
        labels: of the configuration.
        clock: says how late they are.
    """

    def __init__(self, gate: GatePort, labels: Labels, clock: Clock) -> None:
        self._gate, self._labels, self._clock = gate, labels, clock
        self._waiting: deque[_Waiting] = deque()
        self._written = self._noted = 0

    def announce(self, records: Sequence[FlightRecord], ticket: int) -> None:
        """Take changes that were given to the recorder.

        Args:
            records: others than changes and injected faults are passed over.
            ticket: what the recorder's `done` reaches when they are in its file.
        """
        now_ns = self._clock.monotonic_ns()
        self._waiting.extend(_Waiting(record, ticket, now_ns) for record in records if record.kind in TELLING)

    def step(self, done: int, stamp: Stamp, *, all_of_them: bool = False) -> bool:
        """Hand over what may be.

        Args:
            done: of the recorder.
            stamp: of this round.
            all_of_them: wait for nothing, at the end.

        Returns:
            Whether everything ever handed over is now settled, and was not before: the outbox has it, or it is
            counted.
        """
        while self._waiting:
            first = self._waiting[0]
            if not all_of_them and done < first.ticket and stamp.now_ns - first.since_ns < PATIENCE_NS:
                break
            self._waiting.popleft()
            event = event_of(first.record, age_ns(first.record, stamp), self._labels)
            if event is not None:
                self._gate.write(event)
                self._written += 1
        if self._noted == self._written or self.unsettled:
            return False
        self._noted = self._written
        return True

    @property
    def unsettled(self) -> int:
        """Events of which it is not known yet that the outbox has them, or that they are counted."""
        status = self._gate.status()
        ended = sum(status.accepted.values()) + sum(status.not_accepted.values()) + status.overflowed
        return len(self._waiting) + max(0, self._written - ended)


def age_ns(record: FlightRecord, stamp: Stamp) -> int:
    """How long ago a record was made; of an earlier boot by the wall clock, as far as that can be believed."""
    if record.boot == stamp.wall.boot_id:
        return max(0, stamp.now_ns - record.at_ns)
    if not (record.synced and stamp.wall.synced):
        return stamp.now_ns  # at least since this boot began
    return max(stamp.now_ns, stamp.wall.unix_ns - record.wall_ms * NS_PER_MS)
