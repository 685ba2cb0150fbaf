"""A replay told to a person: what was recorded, what came of it, what differs."""

from collections.abc import Iterator, Sequence

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol import EventRecord
from edge_runtime.recording import Part, Standing
from edge_runtime.replay.diff import Difference, Kind
from edge_runtime.replay.perception import Agreement

_MOST_FIELDS = 6


def standing_line(part: Part, standing: Standing) -> str:
    """A part in one line: how much of it there is, and how it ended."""
    ended = "ended in order" if standing.why == "closed" else standing.text
    return f"{part.folder.name}: {standing.records} records, {standing.seconds:.1f} s, {ended}"


def trouble_lines(part: Part, standing: Standing) -> Iterator[str]:
    """What is missing in a part, a line each."""
    name = part.folder.name
    if standing.begins:
        yield f"{name}: its beginning was dropped ({standing.begins} records); what began before is not compared"
    if standing.missing:
        yield f"{name}: {standing.missing} records are missing in between"
    if standing.damaged:
        yield f"{name}: {standing.damaged} torn or damaged records skipped"
    for file in standing.unread:
        yield f"{name}: not read: {file}"
    for cause, count in standing.lost.items():
        yield f"{name}: {count} lost when it was recorded: {cause}"


def agreement_line(agreement: Agreement) -> str:
    """How frames looked at anew compare with what was seen in them."""
    told = f"{agreement.looked} frames looked at anew: {agreement.differ} differ"
    if agreement.furthest_px:
        told += f", boxes by up to {agreement.furthest_px:.3g} px"
    if agreement.without_picture:
        told += f"; {agreement.without_picture} have no picture, and what was seen then was taken"
    return told


def difference_lines(differences: Sequence[Difference], base_ns: int, most: int) -> Iterator[str]:
    """Differences, a line each, at most so many.

    Args:
        differences: in the order of time.
        base_ns: CLOCK_MONOTONIC from which seconds are counted.
        most: lines.
    """
    for one in differences[:most]:
        yield difference_line(one, base_ns)
    if len(differences) > most:
        yield f"and {len(differences) - most} more"


def difference_line(one: Difference, base_ns: int) -> str:
    """One difference: what it is, when, where, and what of it differs."""
    at_s = (one.event.at.monotonic_ns - base_ns) / NS_PER_S
    line = f"{one.kind.value:<8}{at_s:9.3f} s  {_named(one.event)}"
    if one.kind is Kind.CHANGED:
        told = [
            f"{name} {_value(before)} -> {_value(after)}" for name, before, after in one.fields[:_MOST_FIELDS]
        ]
        more = [f"{len(one.fields) - _MOST_FIELDS} more"] if len(one.fields) > _MOST_FIELDS else []
        line += ": " + ", ".join([*told, *more])
    if one.shift_s:
        line += f"; {abs(one.shift_s):.3f} s {'later' if one.shift_s > 0 else 'earlier'}"
    return line


def _named(event: EventRecord) -> str:
    told = [event.camera, event.rule, event.kind, event.state.value]
    told += [event.direction] if event.direction else []
    told += [f"track {event.track}"] if event.track is not None else []
    told += [f"count {event.count}"] if event.count is not None else []
    return " ".join(told)


def _value(value: object) -> str:
    return "nothing" if value is None else str(value)
