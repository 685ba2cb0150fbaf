"""The monitor's part of a recording through its judgement: each round's readings to conditions and their events."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from edge_runtime.clock import NS_PER_MS, NS_PER_S, WallLabel
from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.guard.conditions import conditions_in
from edge_runtime.monitor.changes import DEVICE_CAMERA, TTL_S, Labels
from edge_runtime.monitor.conditions import Memory, evaluate, evaluated_by
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.monitor.readings import Readings
from edge_runtime.protocol import EventRecord, EventState, EventTime, Severity, uuid7
from edge_runtime.recording.readings import laid_over

MONITOR_RULE = "@monitor"
"""Rule name of what the monitor judges; such events exist in replays alone."""

UNKNOWN = "_unknown"
"""Ends the kind of an event which says that a condition could not be looked at."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round found.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        evaluated, tripped: masks of conditions.
    """

    at_ns: int
    evaluated: int
    tripped: int


@dataclass
class HealthReplayed:
    """What came of a part.

    Attributes:
        events: of conditions that began to hold, or no longer do.
        recorded: the same of what the device's own monitor found.
        rounds: as judged anew.
        refused: records that are not what they should be.
    """

    events: list[EventRecord] = field(default_factory=list)
    recorded: list[EventRecord] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    refused: int = 0


def replay_health(records: Iterable[FlightRecord], settings: MonitorConfig, digest: str) -> HealthReplayed:
    """Judge the readings of a part anew.

    Args:
        records: of it, in their order; rounds before the first with all readings are passed over, and so they are
            after a record that is missing or damaged: a round says what changed since the one before.
        settings: bounds.
        digest: of the configuration; events carry it.
    """
    found, memory, readings = HealthReplayed(), Memory(), None
    number: int | None = None
    labels, looks_at = Labels(settings.data_class, digest), evaluated_by(settings)
    told, told_then = _Told(labels, looks_at), _Told(labels, looks_at)
    for record in records:
        before, number = number, record.fields.get("n")
        if before is not None and number != before + 1:
            readings = None
        if record.kind != "round":
            continue
        try:
            readings = _readings(record, readings)
            then = Round(record.at_ns, int(record.fields["evaluated"]), int(record.fields["tripped"]))
        except (KeyError, TypeError, ValueError):
            found.refused += 1
            readings = None
            continue
        if readings is None:
            continue
        judged = evaluate(record.at_ns, readings, settings, memory)
        memory = judged.memory
        found.rounds.append(Round(record.at_ns, judged.evaluated, judged.tripped))
        why = {condition.value: text for condition, text in judged.why.items()}
        found.events += told.changes(record, found.rounds[-1], why)
        found.recorded += told_then.changes(record, then, {})
    return found


def _readings(record: FlightRecord, before: Readings | None) -> Readings | None:
    """The readings of a round; None where what was before is not known."""
    whole = record.fields["whole"]
    return (
        None
        if before is None and not whole
        else laid_over(None if whole else before, record.fields["readings"])
    )


class _Told:
    """Turns what holds, round by round, into events."""

    def __init__(self, labels: Labels, looks_at: int) -> None:
        self._labels, self._looks_at = labels, looks_at
        self._open: dict[str, EventRecord] = {}
        self._number = 0

    def changes(self, record: FlightRecord, now: Round, why: Mapping[str, str]) -> list[EventRecord]:
        """Of what begins to hold, and of what no longer does, in the order of the conditions."""
        holds = {name: why.get(name.removesuffix(UNKNOWN)) for name in _names(now, self._looks_at)}
        ended = [self._ended(name, record) for name in list(self._open) if name not in holds]
        begun = [self._begun(name, text, record) for name, text in holds.items() if name not in self._open]
        return ended + begun

    def _begun(self, name: str, why: str | None, record: FlightRecord) -> EventRecord:
        at = _instant(record)
        self._number += 1
        event = EventRecord(
            id=uuid7(record.wall_ms * NS_PER_MS, self._number),
            revision=1,
            state=EventState.STARTED,
            kind=name,
            rule=MONITOR_RULE,
            camera=DEVICE_CAMERA,
            epoch=0,
            sequence=self._number,
            severity=Severity.WARNING,
            data_class=self._labels.data_class,
            started=at,
            at=at,
            deadline_ms=1000.0,
            latency_ms=0.0,
            late=False,
            ttl_s=TTL_S,
            reason=why,
            config=self._labels.config,
        )
        self._open[name] = event
        return event

    def _ended(self, name: str, record: FlightRecord) -> EventRecord:
        event, at = self._open.pop(name), _instant(record)
        lasted_s = round((at.monotonic_ns - event.started.monotonic_ns) / NS_PER_S, 3)
        return event.model_copy(
            update={"revision": 2, "state": EventState.ENDED, "at": at, "duration_s": max(0.0, lasted_s)}
        )


def _names(now: Round, looks_at: int) -> Iterator[str]:
    for condition in conditions_in(now.tripped):
        yield condition.value
    for condition in conditions_in(looks_at & ~now.evaluated):
        yield condition.value + UNKNOWN


def _instant(record: FlightRecord) -> EventTime:
    label = WallLabel(record.wall_ms * NS_PER_MS, record.synced, record.boot)
    return EventTime(
        monotonic_ns=record.at_ns,
        media_s=0.0,
        wall=label.isoformat(),
        synced=record.synced,
        boot_id=record.boot,
    )
