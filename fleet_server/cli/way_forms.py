"""The forms in which a device's way to a release and its history are shown."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from fleet_server.cli.output import clean, when, width

_MARKS = {"met": "✓", "waits": "…", "stops": "✗"}
_INDENT = 4


def way_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What each rollout has to do with a device, and how far it came."""
    yield clean(f"{found['device']}, {'online' if found['online'] else 'away'}, {_reported(found)}")
    for slot in found["slots"]:
        what = (
            "what it was set up with"
            if slot["sha256"] is None
            else f"release {slot['counter']}, {slot['sha256'][:12]}"
        )
        yield clean(f"  {slot['slot']} runs {what}, said {when(slot['reported_ms'])} UTC")
    if not found["ways"]:
        yield "no rollout names it"
    for way in found["ways"]:
        member = way["membership"]
        yield ""
        yield clean(f"{member['rollout']}  {member['name']}  {member['rollout_state']}: {_has(way)}")
        for step in way["steps"]:
            yield from _wrapped(f"{_MARKS[step['standing']]} {step['text']}", _INDENT)
            if step["change"]:
                yield from _wrapped(f"what would change it: {step['change']}", _INDENT + 2)


def history_rows(assignments: list[Any]) -> Iterator[tuple[object, ...]]:
    """One assignment a row, the newest first."""
    for one in assignments:
        code = f" ({one['code']})" if one["code"] else ""
        yield (
            one["seq"],
            when(one["decided_ms"]),
            one["rollout"],
            one["slot"],
            one["action"] or "?",
            _short(one["target"]),
            f"{one['state']}{code}",
            one["left"],
            one["text"] or None,
        )


def _reported(found: Mapping[str, Any]) -> str:
    at = when(found["reported_ms"])
    return "it never reported of its updates" if at is None else f"last report {at} UTC"


def _has(way: Mapping[str, Any]) -> str:
    if way["has_it"]:
        return "the device has it"
    return "the device has it not" if way["membership"]["part"] else "the device is not part of it"


def _short(target: str | None) -> str | None:
    """A target without its kind and file: `yolox-nano/7`."""
    return None if target is None else "/".join(target.split("/")[1:3]) or target


def _wrapped(text: str, indent: int) -> list[str]:
    blank = " " * indent
    cells = width()
    if cells is None:
        return [blank + clean(text)]
    return textwrap.wrap(clean(text), cells, initial_indent=blank, subsequent_indent=f"{blank}  ") or [blank]
