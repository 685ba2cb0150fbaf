"""The monitor's work: one round after the other, in one thread, each ending with a beat.

A round takes the guard's entries out of the flight ring, judges the conditions by the newest readings, beats, and
gives the flight recorder and the gate what is theirs. Nothing in it waits for a write, and for the outbox only as
long as `road.OUTBOX_S`: both may be away, and the round that the guard waits for is not late.
"""

import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.page import SlotWriter
from edge_runtime.guard.ring import RingReader
from edge_runtime.monitor.adapters import AdapterSocket
from edge_runtime.monitor.conditions import Judgement, Memory, evaluate
from edge_runtime.monitor.entries import Stamp, records_of
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.monitor.journal import log_records
from edge_runtime.monitor.measured import measured
from edge_runtime.monitor.readings import Readings
from edge_runtime.monitor.recorder import Recorder
from edge_runtime.monitor.sampling import HostSample, HostSampler, wall_offset_ns
from edge_runtime.protocol import uuid7
from edge_runtime.protocol.operation import CameraHealth

if TYPE_CHECKING:  # a device from which nothing leaves loads neither gate nor outbox
    from edge_runtime.monitor.announcer import Announcer
    from edge_runtime.outbox import OutboxStatus

ROUND_S = 0.2
MEASURE_NS = NS_PER_S
DEADLINE_NS = NS_PER_S
"""A round has to be followed by another within this time, whatever is away."""

BREATH_S = 0.005
"""Between two looks at a socket that is flooded."""

MOST_ENTRIES = 512
_URGENT = frozenset({"change", "fault", "worker", "start", "end"})


class FaultPort(Protocol):
    """What injects faults, where that is permitted."""

    def applied(self, now_ns: int, readings: Readings) -> Readings:
        """The readings of a round, as the orders have them."""
        ...

    def news(self) -> list[dict[str, Any]]:
        """Of each fault that began or ended since the last call: what is to be written down."""
        ...


class RoundTap(Protocol):
    """Told what each round went by and what it found; a recording is one. Be quick, and never raise."""

    def round(
        self, now_ns: int, readings: Readings, judged: Judgement, records: Sequence[FlightRecord]
    ) -> None:
        """One round; the records go to the flight recorder."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What rounds work with.

    Attributes:
        settings: bounds.
        sampler: reads the machine.
        adapters: hears a robot's own software.
        recorder: takes records.
        ring: of the guard; None without a guard.
        ring_name: which guard's ring it is.
        slot: of the guard's page; None without a guard.
        announcer: hands events to the gate; None where nothing leaves the device.
        orphaned: whether the guard that started this process is gone.
        queue: as the outbox says it stands; gives None where there is no answer, in time or at all.
        cameras: as perception wrote them down last.
        clock: time.
        faults: of a bench: makes readings fail, and says of each fault when it begins and ends; None elsewhere.
        tap: looks on.
    """

    settings: MonitorConfig
    sampler: HostSampler
    adapters: AdapterSocket
    recorder: Recorder
    ring: RingReader | None
    ring_name: str
    slot: SlotWriter | None
    announcer: "Announcer | None"
    orphaned: Callable[[], bool]
    queue: Callable[[], "OutboxStatus | None"]
    cameras: Callable[[], Sequence[CameraHealth]]
    clock: Clock
    faults: "FaultPort | None" = None
    tap: "RoundTap | None" = None


class Rounds:
    """Goes from round to round.

    Args:
        parts: what it works with.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts, self._clock = parts, parts.clock
        self._memory = Memory()
        self._sample: HostSample | None = None
        self._measured_ns = 0
        self._told: tuple[int, int] | None = None
        self._lost: dict[str, int] = {}
        self._worst_ms = 0.0

    def run(self, ending: socket.socket) -> None:
        """Until `ending` becomes readable; then the ring is drained once more, and the end written down."""
        while not self._wait(ending):
            self.round()
        self._last_round()

    def note_handed(self) -> None:
        """At the end, after the gate has closed: write down that the outbox has every event, or it is counted."""
        self._keep([], Stamp.take(self._clock), last=True)

    def round(self) -> None:
        """One round."""
        began_ns = self._clock.monotonic_ns()
        stamp = Stamp.take(self._clock)
        records = self._drain(stamp)
        measures = self._sample is None or began_ns - self._measured_ns >= MEASURE_NS
        if self._sample is None or measures:
            self._sample, self._measured_ns = self._parts.sampler.look(), began_ns
        readings = self._readings(self._sample)
        if self._parts.faults is not None:
            readings = self._parts.faults.applied(began_ns, readings)
            records += self._faults(self._parts.faults, stamp)
        judged_ns = self._clock.monotonic_ns()
        judged = evaluate(judged_ns, readings, self._parts.settings, self._memory)
        self._memory = judged.memory
        self._beat(judged)
        records += self._conditions(judged, stamp)
        if measures:
            records.append(stamp.record("measured", self._measures(self._sample, readings)))
        records += self._losses(stamp)
        if self._parts.tap is not None:
            self._parts.tap.round(judged_ns, readings, judged, records)
        self._keep(records, stamp)
        self._worst_ms = max(self._worst_ms, (self._clock.monotonic_ns() - began_ns) / NS_PER_MS)

    def _wait(self, ending: socket.socket) -> bool:
        """Until the next round is due, hearing adapters; whether the end was asked for."""
        if self._sample is None:
            return False
        until_ns = self._clock.monotonic_ns() + int(ROUND_S * NS_PER_S)
        while (left_ns := until_ns - self._clock.monotonic_ns()) > 0:
            waited: list[socket.socket | AdapterSocket] = [ending, self._parts.adapters]
            ready, _, _ = select.select(waited, [], [], left_ns / NS_PER_S)
            if ending in ready:
                return True
            if ready:
                self._parts.adapters.listen()
                if select.select([ending], [], [], BREATH_S)[0]:
                    return True
        return bool(select.select([ending], [], [], 0)[0])

    def _drain(self, stamp: Stamp) -> list[FlightRecord]:
        parts = self._parts
        if parts.ring is None:
            return []
        entries = parts.ring.take(MOST_ENTRIES)
        records = records_of(entries, parts.ring_name, stamp, events=parts.announcer is not None)
        log_records(records)
        return records

    def _readings(self, sample: HostSample) -> Readings:
        heard = self._parts.adapters.heard
        return Readings(
            disks=sample.disks,
            memory=sample.memory,
            memory_full_percent=sample.memory_full_percent,
            temperatures=sample.temperatures,
            throttled=sample.throttled,
            batteries={
                name: heard.batteries.get(name) if bounds.supply is None else sample.batteries.get(name)
                for name, bounds in self._parts.settings.batteries.items()
            },
            pose=heard.pose,
            map_built_ns=heard.map_built_ns,
            wall_offset_ns=wall_offset_ns(self._clock),
        )

    def _beat(self, judged: Judgement) -> None:
        if self._parts.slot is not None:
            deadline_ns = self._clock.monotonic_ns() + DEADLINE_NS
            self._parts.slot.finished("round", None, deadline_ns, judged.evaluated, judged.tripped)

    def _conditions(self, judged: Judgement, stamp: Stamp) -> list[FlightRecord]:
        """A record where what holds, or could be looked at, is no longer the same."""
        if self._told == (judged.evaluated, judged.tripped):
            return []
        self._told = (judged.evaluated, judged.tripped)
        why = {condition.value: text for condition, text in judged.why.items()}
        fields = {
            "tripped": [name for name in why if judged.tripped & Condition(name).mask],
            "not_evaluated": [name for name in why if not judged.evaluated & Condition(name).mask],
            "why": why,
        }
        return [stamp.record("conditions", fields)]

    def _measures(self, sample: HostSample, readings: Readings) -> dict[str, Any]:
        parts, worst_ms, self._worst_ms = self._parts, self._worst_ms, 0.0
        return measured(
            sample,
            readings,
            parts.adapters.heard,
            queue=parts.queue(),
            cameras=parts.cameras(),
            worst_round_ms=worst_ms,
        )

    def _faults(self, faults: FaultPort, stamp: Stamp) -> list[FlightRecord]:
        """A record, and with it an event, for each fault that was injected or is over."""
        records = []
        for fields in faults.news():
            key = {} if self._parts.announcer is None else {"event": uuid7(stamp.wall.unix_ns)}
            records.append(stamp.record("fault", {**fields, **key}))
        return records

    def _losses(self, stamp: Stamp) -> list[FlightRecord]:
        """A record for what was lost since the last one."""
        parts = self._parts
        lost = {"ring": 0 if parts.ring is None else parts.ring.lost, "recorder": parts.recorder.lost}
        news = {name: number - self._lost.get(name, 0) for name, number in lost.items()}
        if not any(news.values()) or parts.recorder.failing:
            return []
        self._lost = lost
        return [stamp.record("lost", news)]

    def _keep(self, records: list[FlightRecord], stamp: Stamp, *, last: bool = False) -> None:
        parts = self._parts
        urgent = any(record.kind in _URGENT for record in records)
        ticket = parts.recorder.append(records, urgent=urgent) if records else 0
        if parts.announcer is not None:
            parts.announcer.announce(records, ticket)
            if parts.announcer.step(parts.recorder.done, stamp, all_of_them=last):
                parts.recorder.append([stamp.record("handed", {})])

    def _last_round(self) -> None:
        stamp = Stamp.take(self._clock)
        records: list[FlightRecord] = []
        while found := self._drain(stamp):
            records += found
        records += self._losses(stamp)
        self._keep([*records, stamp.record("end", {"orphaned": self._parts.orphaned()})], stamp, last=True)
