"""The guard's state machine over what was recorded of its conditions, in the steps of a clock.

The guard writes down once a second what it saw, and each change of its state when it comes. Between two of these
what was seen last is taken to hold, so a change may come up to a second later here than it did; what the monitor
found is known five times a second, and is laid over it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.guard import machine
from edge_runtime.guard.conditions import FROM_HISTORY, FROM_LATENESS, Condition, mask_of
from edge_runtime.guard.memory import LATCHED, Acknowledgement, Inputs, Latch, Memory, Record, State
from edge_runtime.guard.profile import EVERYTHING, Profile
from edge_runtime.guard.standing import words
from edge_runtime.monitor.changes import Labels, event_of
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.protocol import EventRecord, uuid7
from edge_runtime.replay.health import Round

STEP_NS = 50 * NS_PER_MS
SHIFT_S = 1.5
"""A change that comes no more than this apart from the recorded one is the same."""

SECOND_NS = 1_000 * NS_PER_MS
_NONCE = b"a replay has no secrets"
_HEAD = frozenset({"kind", "at_ns", "wall_ms", "synced", "boot"})
_END = "end"
"""The guard was told to end: it withdraws the permission, and nobody writes down who asked."""

_ARMED = frozenset({State.NOMINAL.value, State.DEGRADED.value, State.STOPPED.value})
_ASKS = ("arm", "disarm", "reset", "acknowledge")


@dataclass
class GuardReplayed:
    """What came of a part.

    Attributes:
        events: of changes of state.
        recorded: of those that the guard wrote down.
        refused: records that are not what they should be.
    """

    events: list[EventRecord] = field(default_factory=list)
    recorded: list[EventRecord] = field(default_factory=list)
    refused: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the guard wrote down at one time."""

    at_ns: int
    tripped: int = 0
    unknown: int = 0
    late_ns: int = 0
    state: State | None = None
    ask: str | None = None


def replay_guard(
    records: Iterable[FlightRecord],
    profile: Profile,
    labels: Labels,
    *,
    arms_itself: bool,
    rounds: Sequence[Round] = (),
    looks_at: int = 0,
) -> GuardReplayed:
    """Run the state machine over a part.

    Args:
        records: of it, in their order.
        profile: of the body.
        labels: that events carry.
        arms_itself: whether the body asks by itself to be armed.
        rounds: what the monitor found, to be laid over what the guard saw of it.
        looks_at: mask of what the monitor evaluates.
    """
    found = GuardReplayed()
    seen: list[_Seen] = []
    stamp: FlightRecord | None = None
    disarmed_ns = -SECOND_NS
    for record in records:
        if record.kind != "flight":
            continue
        told = record.fields.get("record")
        try:
            stamp, entry = _read(told)
        except (KeyError, TypeError, ValueError, AttributeError):
            found.refused += 1
            continue
        if entry is not None:
            seen.append(entry)
            disarmed_ns = entry.at_ns if entry.ask == "disarm" else disarmed_ns
        if _ends(stamp) and stamp.at_ns - disarmed_ns >= SECOND_NS:
            seen.append(_Seen(stamp.at_ns, ask=_END))
        if stamp.kind == "change" and any(one.state for one in seen):
            found.recorded += _event(stamp, dict(stamp.fields), len(found.recorded), labels)
    seen.sort(key=lambda one: one.at_ns)
    if stamp is not None:
        _Walk(found, seen, stamp, profile, labels, arms_itself=arms_itself).run(_Laid(rounds, looks_at))
    return found


class _Laid:
    """The monitor's word, laid over what the guard saw of it."""

    def __init__(self, rounds: Sequence[Round], looks_at: int) -> None:
        self._rounds, self._looks_at = rounds, looks_at
        self._times = [one.at_ns for one in rounds]

    def over(self, now_ns: int, tripped: int, unknown: int) -> tuple[int, int]:
        """What holds, and what nobody looked at."""
        place = bisect_right(self._times, now_ns)
        if not place:
            return tripped, unknown
        found, mask = self._rounds[place - 1], self._looks_at
        return tripped & ~mask | found.tripped & mask, unknown & ~mask | mask & ~found.evaluated


class _Walk:
    """From the first summary to the last record, step by step."""

    def __init__(
        self,
        found: GuardReplayed,
        seen: Sequence[_Seen],
        stamp: FlightRecord,
        profile: Profile,
        labels: Labels,
        *,
        arms_itself: bool,
    ) -> None:
        self._found, self._stamp, self._profile, self._labels = found, stamp, profile, labels
        first = next((index for index, one in enumerate(seen) if one.state is not None), len(seen))
        self._seen, self._arms_itself = seen[first:], arms_itself
        self._armed_ns: int | None = None
        self._now = _Seen(0)

    def run(self, laid: _Laid) -> None:
        """All steps."""
        if not self._seen:
            return
        memory = self._begin(self._seen[0])
        waiting = list(reversed(self._seen))
        now_ns, last_ns = self._seen[0].at_ns, self._seen[-1].at_ns
        while now_ns <= last_ns:
            acts = []
            while waiting and waiting[-1].at_ns <= now_ns:
                acts.append(self._take(waiting.pop()))
            asks = [act for act in acts if act]
            memory = self._step(now_ns, memory, asks, laid)
            if _END in asks:
                return
            following = now_ns + STEP_NS
            now_ns = min(following, waiting[-1].at_ns) if waiting else following

    def _begin(self, first: _Seen) -> Memory:
        boot_id = self._stamp.boot
        nothing = Record(None, (), boot_id)
        memory, _ = machine.start(
            first.at_ns, boot_id=boot_id, nonce=_NONCE, found=nothing, profile=self._profile
        )
        state = first.state or State.INIT
        latch = Latch("recorded", state, first.tripped, first.at_ns) if state in LATCHED else None
        return memory._replace(state=state, latch=latch)

    def _take(self, one: _Seen) -> str | None:
        """What is seen from now on; what somebody asked for."""
        if one.ask is not None:
            return one.ask
        if one.state is None:  # of a change: its causes held at that moment
            self._now = _Seen(one.at_ns, self._now.tripped | one.tripped, self._now.unknown)
        else:
            self._now = one
        return None

    def _step(self, now_ns: int, memory: Memory, asks: Sequence[str], laid: _Laid) -> Memory:
        tripped, unknown = laid.over(now_ns, self._now.tripped, self._now.unknown)
        late_ns, self._now = self._now.late_ns, _Seen(self._now.at_ns, self._now.tripped, self._now.unknown)
        acknowledged = "acknowledge" in asks and memory.latch is not None
        ack = Acknowledgement(memory.latch.id, now_ns) if acknowledged and memory.latch else None
        inputs = Inputs(
            evaluated=EVERYTHING & ~unknown,
            tripped=tripped & ~FROM_LATENESS,
            late_ns=late_ns,
            standstill=True if ack is not None else None,
            arm_ns=now_ns if "arm" in asks or self._arms(now_ns, memory) else None,
            disarm="disarm" in asks or _END in asks,
            ack=ack,
            reset_ns=now_ns if "reset" in asks else None,
        )
        memory, outputs = machine.step(now_ns, memory, inputs, self._profile)
        for change in outputs.changes:
            fields = {
                "before": change.before.value,
                "state": change.after.value,
                "causes": words(change.causes),
            }
            record = _at(self._stamp, "change", change.at_ns, fields)
            self._found.events += _event(record, fields, len(self._found.events), self._labels)
        return memory

    def _arms(self, now_ns: int, memory: Memory) -> bool:
        if not self._arms_itself or memory.state is not State.STANDBY:
            return False
        if self._armed_ns is not None and now_ns - self._armed_ns < SECOND_NS:
            return False
        self._armed_ns = now_ns
        return True


def _read(told: Any) -> tuple[FlightRecord, _Seen | None]:
    """A record of the flight recorder, and what of it the state machine goes by."""
    record = FlightRecord(
        str(told["kind"]),
        int(told["at_ns"]),
        int(told["wall_ms"]),
        bool(told["synced"]),
        str(told["boot"]),
        {name: value for name, value in told.items() if name not in _HEAD},
    )
    fields = record.fields
    if record.kind == "turn":
        late_ns = int(fields.get("late_worst_us", 0)) * 1_000
        tripped, unknown = int(fields["tripped"], 16), int(fields["not_evaluated"], 16)
        return record, _Seen(record.at_ns, tripped, unknown, late_ns, State(fields["state"]))
    if record.kind == "change":
        return record, _Seen(record.at_ns, _mask(fields.get("causes") or ()) & ~FROM_HISTORY)
    if record.kind == "act" and fields.get("ask") in _ASKS:
        return record, _Seen(record.at_ns, ask=fields["ask"])
    return record, None


def _ends(record: FlightRecord) -> bool:
    """Whether a permission was withdrawn, or might have come back, and there is no reason for it."""
    fields = record.fields
    return (
        record.kind == "change"
        and fields.get("before") in _ARMED
        and fields.get("state") == State.STANDBY.value
    )


def _mask(names: Iterable[str]) -> int:
    known = {condition.value: condition for condition in Condition}
    return mask_of(known[name] for name in names if name in known)


def _event(record: FlightRecord, fields: dict[str, Any], number: int, labels: Labels) -> list[EventRecord]:
    """The event of a change, under an id of its own and without the latch's, which nobody can know before."""
    told = {**fields, "latch": None, "sequence": number, "event": uuid7(record.wall_ms * NS_PER_MS, number)}
    event = event_of(_at(record, "change", record.at_ns, told), 0, labels)
    return [] if event is None else [event]


def _at(stamp: FlightRecord, kind: str, at_ns: int, fields: dict[str, Any]) -> FlightRecord:
    """A record of a moment, labelled by one whose labels are known."""
    wall = WallLabel(stamp.wall_ms * NS_PER_MS + (at_ns - stamp.at_ns), stamp.synced, stamp.boot)
    return FlightRecord(kind, at_ns, max(0, wall.unix_ns) // NS_PER_MS, wall.synced, wall.boot_id, fields)
