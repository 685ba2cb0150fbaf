"""Two rows of events compared: what is missing or extra, what has changed, what came at another time. Pure."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol import EventRecord

TIMES = frozenset(
    f"{moment}.{name}"
    for moment in ("started", "at")
    for name in ("monotonic_ns", "media_s", "wall", "synced", "boot_id")
)
"""Fields that say when; they are compared as a shift."""

FROM_ANOTHER_RUN = frozenset({"id", "latency_ms", "late", "evidence", "sequence", "epoch"})
"""Fields that differ from run to run: ids are drawn, and how long something took is measured anew.

The frame is not compared by its number: a model that misses one has the event noticed in the next.
"""

_NO_EVIDENCE = "no evidence: "


class Kind(str, Enum):
    """What a difference is."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"
    SHIFTED = "shifted"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as the same.

    Attributes:
        ignored: fields that are not looked at, as `box.x1`, or `box` for all of it.
        apart_s: events further apart than this are not the same one.
        shift_s: a time that is off by no more is not told.
    """

    ignored: frozenset[str] = FROM_ANOTHER_RUN
    apart_s: float = 2.0
    shift_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Attributes:
        kind: what it is.
        event: the expected one; the found one where it is extra.
        fields: name, expected value, found value of what has changed.
        shift_s: by how much it was noticed, or began, later than expected.
    """

    kind: Kind
    event: EventRecord
    fields: tuple[tuple[str, Any, Any], ...] = ()
    shift_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Pair:
    expected: EventRecord
    found: EventRecord


def compare(
    expected: Sequence[EventRecord], found: Sequence[EventRecord], tolerance: Tolerance
) -> list[Difference]:
    """The differences, in the order of time.

    Events are paired within a camera, rule, kind and state: first those of the same moment and track, then those
    that began at the same one, then each with the nearest that is left. Moments are those of CLOCK_MONOTONIC where
    both are of the same run, else those of the source's timeline.

    Args:
        expected: the reference.
        found: what is held against it.
        tolerance: what counts as the same.
    """
    axis = _Axis(monotonic=_one_run(expected, found))
    groups: dict[tuple[str, ...], tuple[list[EventRecord], list[EventRecord]]] = defaultdict(lambda: ([], []))
    for side, events in enumerate((expected, found)):
        for event in events:
            groups[axis.group(event)][side].append(event)
    differences: list[Difference] = []
    for mine, theirs in groups.values():
        pairs, missing, extra = _paired(mine, theirs, axis, tolerance.apart_s)
        differences += [Difference(Kind.MISSING, event) for event in missing]
        differences += [Difference(Kind.EXTRA, event) for event in extra]
        differences += [told for pair in pairs if (told := _difference(pair, axis, tolerance)) is not None]
    return sorted(differences, key=lambda one: (axis.of(one.event), one.kind is not Kind.MISSING))


def within(events: Iterable[EventRecord], first_ns: int | None) -> list[EventRecord]:
    """The events of happenings that began when something was recorded already."""
    return [event for event in events if first_ns is None or event.started.monotonic_ns >= first_ns]


def _one_run(expected: Sequence[EventRecord], found: Sequence[EventRecord]) -> bool:
    """Whether both are of the same run: their times on the clock of a boot overlap, or one of them is empty."""
    mine, theirs = _spans(expected), _spans(found)
    overlapping = any(
        mine[boot][0] <= theirs[boot][1] and theirs[boot][0] <= mine[boot][1]
        for boot in mine.keys() & theirs.keys()
    )
    return overlapping or not mine or not theirs


def _spans(events: Iterable[EventRecord]) -> dict[str, tuple[int, int]]:
    """From when until when events were noticed, by boot."""
    found: dict[str, tuple[int, int]] = {}
    for event in events:
        at_ns = event.at.monotonic_ns
        first, last = found.get(event.at.boot_id, (at_ns, at_ns))
        found[event.at.boot_id] = min(first, event.started.monotonic_ns), max(last, at_ns)
    return found


@dataclass(frozen=True, slots=True)
class _Axis:
    """On which clock two rows of events are held against each other."""

    monotonic: bool

    def of(self, event: EventRecord) -> int:
        return self._ns(event.at.monotonic_ns, event.at.media_s)

    def began(self, event: EventRecord) -> int:
        return self._ns(event.started.monotonic_ns, event.started.media_s)

    def group(self, event: EventRecord) -> tuple[str, ...]:
        """Within which events are paired."""
        boot = event.at.boot_id if self.monotonic else ""
        return event.camera, event.rule, event.kind, event.state.value, boot

    def _ns(self, monotonic_ns: int, media_s: float) -> int:
        return monotonic_ns if self.monotonic else round(media_s * NS_PER_S)


def _paired(
    expected: Sequence[EventRecord], found: Sequence[EventRecord], axis: _Axis, apart_s: float
) -> tuple[list[_Pair], list[EventRecord], list[EventRecord]]:
    # Those of the same moment first, and of the same beginning: who came late must not take another's place, and at
    # the end of a run many end at once.
    def near(first: EventRecord, second: EventRecord) -> bool:
        return abs(axis.of(first) - axis.of(second)) <= apart_s * NS_PER_S

    pairs, waiting, left = _matched(expected, found, lambda event: (axis.of(event), event.track), near)
    more, waiting, left = _matched(waiting, left, lambda event: (axis.began(event), event.track), near)
    pairs += more
    left = sorted(left, key=axis.of)
    missing: list[EventRecord] = []
    for event in waiting:
        nearest = _nearest(event, left, axis)
        if nearest is None or not near(left[nearest], event):
            missing.append(event)
        else:
            pairs.append(_Pair(event, left.pop(nearest)))
    return pairs, missing, left


def _matched(
    expected: Sequence[EventRecord],
    found: Sequence[EventRecord],
    key: Callable[[EventRecord], Hashable],
    near: Callable[[EventRecord, EventRecord], bool],
) -> tuple[list[_Pair], list[EventRecord], list[EventRecord]]:
    """Pairs with the same key that are near to each other, and what is left of both."""
    here: dict[Hashable, list[EventRecord]] = defaultdict(list)
    for event in found:
        here[key(event)].append(event)
    pairs: list[_Pair] = []
    waiting: list[EventRecord] = []
    for event in expected:
        same = here.get(key(event), [])
        index = next((index for index, one in enumerate(same) if near(event, one)), None)
        if index is None:
            waiting.append(event)
        else:
            pairs.append(_Pair(event, same.pop(index)))
    return pairs, waiting, [event for events in here.values() for event in events]


def _nearest(event: EventRecord, left: Sequence[EventRecord], axis: _Axis) -> int | None:
    """Where in `left`, which is in the order of time, the nearest one is."""
    at_ns = axis.of(event)
    place = bisect_left(left, at_ns, key=axis.of)
    near = [index for index in (place - 1, place) if 0 <= index < len(left)]
    return min(near, key=lambda index: abs(axis.of(left[index]) - at_ns), default=None)


def _difference(pair: _Pair, axis: _Axis, tolerance: Tolerance) -> Difference | None:
    noticed = axis.of(pair.found) - axis.of(pair.expected)
    began = axis.began(pair.found) - axis.began(pair.expected)
    shift_s = max((noticed, began), key=abs) / NS_PER_S
    changed = _changed(pair, tolerance.ignored)
    if changed:
        return Difference(Kind.CHANGED, pair.expected, changed, shift_s)
    if abs(shift_s) > tolerance.shift_s:
        return Difference(Kind.SHIFTED, pair.expected, (), shift_s)
    return None


def _changed(pair: _Pair, ignored: frozenset[str]) -> tuple[tuple[str, Any, Any], ...]:
    before, after = flat(pair.expected), flat(pair.found)
    names = [
        name
        for name in dict.fromkeys((*before, *after))
        if name not in TIMES and name not in ignored and name.partition(".")[0] not in ignored
    ]
    return tuple(
        (name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    )


def flat(event: EventRecord) -> dict[str, Any]:
    """The fields of an event by their dotted names, without what it says of evidence, which replays do not keep."""
    found = dict(_flat(event.model_dump(mode="json", exclude_none=True), ""))
    reason = found.get("reason")
    if isinstance(reason, str) and _NO_EVIDENCE in reason:
        kept = reason.partition(_NO_EVIDENCE)[0].removesuffix("; ")
        found["reason"] = kept or None
    return found


def _flat(value: Mapping[str, Any], before: str) -> Iterable[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{before}{name}.")
        else:
            yield f"{before}{name}", item
