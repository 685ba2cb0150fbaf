"""Events of the guard's changes of state and of injected faults, through the same gate as all else that leaves.

The event's id is made when the change is taken down, and stands in the flight recorder beside it: a monitor that is
killed before the outbox has the event hands it over again under the same id, and the outbox knows it by that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.guard.explain import meaning
from edge_runtime.guard.memory import State
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.protocol import DataClass, EventRecord, EventState, EventTime, Severity

GUARD_RULE = "@guard"
"""Rule name of what the guard says of itself; no configured name begins like this."""

FAULT_RULE = "@faults"
"""Rule name of what the fault injector did; only a device on a bench has such events."""

TELLING = ("change", "fault")
"""Kinds of records that become events."""

DEVICE_CAMERA = "@device"
"""Stands where other events name a camera: what the guard says is about the whole device."""

DEADLINE_MS = 1000.0
TTL_S = 86_400.0
MOST_REASON = 256

_SEVERITIES = {
    State.SAFE.value: Severity.CRITICAL,
    State.LOCKOUT.value: Severity.CRITICAL,
    State.STOPPED.value: Severity.WARNING,
    State.DEGRADED.value: Severity.NOTICE,
}


@dataclass(frozen=True, slots=True)
class Labels:
    """What the configuration gives to these events.

    Attributes:
        data_class: of all of them.
        config: `sha256:…` of the configuration.
    """

    data_class: DataClass
    config: str


def event_of(record: FlightRecord, age_ns: int, labels: Labels) -> EventRecord | None:
    """The event of a change or of an injected fault; None where the record is neither, or has no id.

    Args:
        record: of kind `change` or `fault`.
        age_ns: how long ago it was.
        labels: of the configuration.
    """
    fields = record.fields
    key, state = fields.get("event"), fields.get("state")
    if record.kind not in TELLING or not isinstance(key, str) or not isinstance(state, str):
        return None
    fault = record.kind == "fault"
    at = _instant(record)
    latency_ms = max(0.0, round(age_ns / NS_PER_MS, 3))
    return EventRecord(
        id=key,
        revision=1,
        state=EventState.ENDED,
        kind=f"{record.kind if fault else 'guard'}_{state.lower()}"[:128],
        rule=FAULT_RULE if fault else GUARD_RULE,
        camera=DEVICE_CAMERA,
        epoch=0,
        sequence=max(0, int(fields.get("sequence", 0))),
        severity=Severity.WARNING if fault else _SEVERITIES.get(state, Severity.INFO),
        data_class=labels.data_class,
        started=at,
        at=at,
        deadline_ms=DEADLINE_MS,
        latency_ms=latency_ms,
        late=latency_ms > DEADLINE_MS,
        ttl_s=TTL_S,
        reason=(str(fields.get("what")) if fault else reason_text(fields))[:MOST_REASON],
        config=labels.config,
    )


def reason_text(fields: Mapping[str, Any]) -> str:
    """A change in one line: from what to what, why, and which latch."""
    causes = "; ".join(meaning(str(cause)) for cause in _items(fields.get("causes")))
    latch = f" (latch {fields['latch']})" if fields.get("latch") else ""
    told = f": {causes}" if causes else ""
    before, state = fields.get("before"), fields.get("state")
    began = before is None or before == state  # the first entry of a guard
    return f"{'start' if began else before} -> {state}{latch}{told}"


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _instant(record: FlightRecord) -> EventTime:
    label = WallLabel(record.wall_ms * NS_PER_MS, record.synced, record.boot)
    return EventTime(
        monotonic_ns=record.at_ns,
        media_s=0.0,
        wall=label.isoformat(),
        synced=record.synced,
        boot_id=record.boot,
    )
