"""The flight recorder for people: one row for each thing that happened, measurements thinned, 80 columns."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from edge_runtime.cli.guard_look import WIDTH
from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.guard.conditions import conditions_in
from edge_runtime.monitor.changes import reason_text
from edge_runtime.monitor.flight import FlightRecord

_TIME = 14
_THINNED = ("measured", "turn")
_HIDDEN = ("handed",)


def table_lines(records: Iterable[FlightRecord], every_s: float) -> Iterator[str]:
    """Rows in the order of the records, with a line of its own for each day and boot.

    Args:
        records: oldest first.
        every_s: of measurements and of the guard's summaries, one in so many seconds is shown.
    """
    section: tuple[str, str, bool] | None = None
    shown_ns: dict[str, int] = {}
    for record in records:
        stamp = WallLabel(record.wall_ms * NS_PER_MS, record.synced, record.boot).isoformat()
        if section != (stamp[:10], record.boot, record.synced):
            if section is None or section[1] != record.boot:
                shown_ns.clear()
            section = (stamp[:10], record.boot, record.synced)
            yield section_line(*section)
        if record.kind in _HIDDEN or _is_thinned(record, shown_ns, every_s):
            continue
        words = "".join(letter if letter.isprintable() else "?" for letter in text_of(record))
        text = f"{stamp[11:23]:{_TIME}}{words}"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent=" " * _TIME) or [text]


def section_line(day: str, boot: str, synced: bool) -> str:
    """The head of one day of one boot."""
    return f"{day} UTC, boot {boot[:8]}{'' if synced else ', clock not synchronised'}"


def text_of(record: FlightRecord) -> str:
    """One record in words; what a newer version wrote is named and passed over."""
    words = _TEXTS.get(record.kind)
    if words is None:
        return f"{record.kind[:20]}: not known to this version"
    try:
        return words(record.fields)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        return f"{record.kind}: written by another version"


def _is_thinned(record: FlightRecord, shown_ns: dict[str, int], every_s: float) -> bool:
    if record.kind not in _THINNED:
        return False
    before_ns = shown_ns.get(record.kind)
    if before_ns is not None and 0 <= record.at_ns - before_ns < every_s * 1e9:
        return True
    shown_ns[record.kind] = record.at_ns
    return False


def _start(fields: Mapping[str, Any]) -> str:
    guard = "under a guard" if fields["ring"] else "without a guard"
    return f"monitor {fields['version']} began {guard}, pid {fields['pid']}, configuration {fields['config'][:19]}"


def _change(fields: Mapping[str, Any]) -> str:
    return f"STATE {reason_text(fields)}"


def _act(fields: Mapping[str, Any]) -> str:
    if "refused" in fields:
        return f"REFUSED {fields['refused']}"
    if fields["ask"] != "acknowledge":
        return f"ASKED to {fields['ask']}"
    note = f": {fields['note']}" if fields["note"] else ""
    return f"ASKED to leave latch {fields['latch']}, signed by {fields['by']}{note}"


def _end(fields: Mapping[str, Any]) -> str:
    return "monitor ended: its guard is GONE" if fields.get("orphaned") else "monitor ended in order"


def _worker(fields: Mapping[str, Any]) -> str:
    pid = "" if fields.get("pid") is None else f", pid {fields['pid']}"
    code = "" if fields.get("exit") is None else f", last exit {fields['exit']}"
    return f"worker {fields['name']} is {fields['phase']}{pid}{code}"


def _turn(fields: Mapping[str, Any]) -> str:
    permit = "may move" if fields["permit"] else "may not move"
    mode = f" ({fields['mode']})" if fields.get("mode") else ""
    text = f"guard {fields['state']}{mode}, {permit}, at worst {fields.get('late_worst_us')} us late"
    for key, words in (("tripped", "holds"), ("not_evaluated", "not evaluated")):
        names = [condition.value for condition in conditions_in(int(fields.get(key, "0"), 16))]
        text += f"; {words}: {', '.join(names)}" if names else ""
    return text


def _conditions(fields: Mapping[str, Any]) -> str:
    why = fields["why"]
    parts = [f"{name} ({why.get(name, '')})" for name in fields["tripped"]]
    parts += [f"{name} not evaluated ({why.get(name, '')})" for name in fields["not_evaluated"]]
    return "monitor: " + ("; ".join(parts) or "all that it looks at is well")


def _measured(fields: Mapping[str, Any]) -> str:
    parts = [_heat(fields), _known(fields["memory_mib"], "{} MiB of memory")]
    parts += [_known(free, f"{name} {{}} MiB") for name, free in fields["disk_mib"].items()]
    queue = fields["queue"]
    parts.append("queue unknown" if queue is None else f"{queue['queued']} queued ({queue['state']})")
    parts += [f"{name} {state} {age_ms} ms" for name, (state, age_ms) in fields["cameras"].items()]
    for name, (charge, volts) in fields["batteries"].items():
        known = [
            text
            for value, text in ((charge, f"{100 * (charge or 0):.0f} %"), (volts, f"{volts} V"))
            if value is not None
        ]
        parts.append(f"{name} {' '.join(known) or 'unknown'}")
    return "  " + " · ".join(parts)


def _heat(fields: Mapping[str, Any]) -> str:
    hottest = max(fields["temperatures"].items(), key=lambda pair: pair[1], default=None)
    text = "no temperature" if hottest is None else f"{hottest[1]:.1f} C {hottest[0]}"
    return f"{text}, throttled by {', '.join(fields['throttled_by'])}" if fields["throttled_by"] else text


def _known(value: object, text: str) -> str:
    return text.format("?" if value is None else value)


def _lost(fields: Mapping[str, Any]) -> str:
    named = {
        "ring": "entries of the guard, overwritten before they were read",
        "recorder": "records that could not be written",
        "events": "events of an earlier run that were not handed over",
    }
    return "LOST " + "; ".join(f"{fields[name]} {text}" for name, text in named.items() if fields.get(name))


_TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "start": _start,
    "end": _end,
    "act": _act,
    "change": _change,
    "worker": _worker,
    "turn": _turn,
    "conditions": _conditions,
    "measured": _measured,
    "lost": _lost,
    "other": lambda fields: f"an entry of a newer guard, kind {fields['of']}",
}
