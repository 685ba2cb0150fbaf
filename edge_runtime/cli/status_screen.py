"""The screen of `edge-runtime status`: at most 80 columns, the answer to "may it move, and why not" on top."""

import signal
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from edge_runtime.cli.guard_look import WIDTH, state_style
from edge_runtime.cli.guard_orders import steps_out, waited
from edge_runtime.cli.status_sources import DeviceStatus
from edge_runtime.guard.explain import meaning
from edge_runtime.guard.memory import State
from edge_runtime.health import HealthSnapshot, screen_lines
from edge_runtime.node.camera_board import ModelStanding
from edge_runtime.node.way_out import WayOut, WayState
from edge_runtime.outbox import OutboxStatus
from edge_runtime.protocol.operation import CameraHealth

_LABEL = 13
_MOST_CAMERAS = 8
_DIGEST = 12
_HEALTH = ("hottest", "throttling", "memory", "disk", "power")
"""Rows of the device's health that are shown; `edge-runtime health` has all."""

_BY_CONDITIONS = (State.DEGRADED, State.STOPPED)
_MOST_CHANGES = 3
_MOST_CAUSES = 3
_BAD_WORKERS = ("killed", "unkillable", "ended")


def status_lines(status: DeviceStatus, option: str = "") -> list[Text]:
    """All of it.

    Args:
        status: of the device.
        option: such as ` --state DIR`, put behind the commands that are proposed.
    """
    guard = status.guard.value
    lines: list[Text] = []
    if guard is None:
        lines += [Text(" NO GUARD ANSWERS ", style="bold white on red")]
        lines += _row("", [status.guard.reason], "red")
        lines += _row("", [status.left] if status.left else [], "yellow")
    else:
        lines += _state(guard, option)
        lines += _conditions(guard)
        lines += _workers(guard["workers"])
        lines += _guard(guard)
    lines.append(Text(""))
    lines += _health(status.health.value) or _none("health", status.health.reason)
    lines += _outbox(status.outbox.value) or _none("queue", status.outbox.reason)
    lines += _cameras(status.cameras.value) or _none("cameras", status.cameras.reason)
    lines += _models(status.models.value) or _none("models", status.models.reason)
    lines += _way_out(status.way_out.value) or _none("server", status.way_out.reason)
    return lines


def fitted(lines: list[Text], height: int) -> list[Text]:
    """The lines that a terminal of so many can show; the last one says how many are missing."""
    if len(lines) <= height:
        return lines
    shown = max(0, height - 1)
    return [*lines[:shown], Text(f"and {len(lines) - shown} more lines: --once prints all", style="dim")]


# -- the guard ---------------------------------------------------------------------------------------------------


def _state(guard: Mapping[str, Any], option: str) -> Iterator[Text]:
    state = str(guard["state"])
    head = Text.assemble((f" {state} ", f"{state_style(state)} reverse"))
    head.append(f"  for {waited(guard['since_ms'])}  ")
    head.append(_permission(guard), style="green" if guard["permit"] else "red")
    head.append(f"  {guard['device']}", style="dim")
    head.truncate(WIDTH, overflow="ellipsis")
    yield head
    latch = guard["latch"]
    if latch is not None:
        for text in map(meaning, latch["causes"]):
            yield from _row("", [text], "red")
        yield from _row("latch", [f"{latch['id']}, for {waited(latch['since_ms'])}; to leave it:"])
    else:
        newest = guard["changes"][-1:]
        if state in _BY_CONDITIONS and newest:
            for text in _few([meaning(name) for name in newest[0]["causes"]]):
                yield from _row("", [text], "yellow")
        if state != State.NOMINAL:
            yield from _row("waits for", [guard["waits"]])
    for step in steps_out(guard, option):
        yield from (Text(line, style="bold") for line in _command(step))
    states = tuple(one.value for one in State)
    for sentence in guard["sentences"]:
        if not sentence.startswith(states):  # changes are below, and what is latched is above
            yield from _row("last said", [sentence], "dim")
    for number, change in enumerate(guard["changes"][: -_MOST_CHANGES - 1 : -1]):
        why = f" ({', '.join(_few(change['causes']))})" if change["causes"] else ""
        text = f"{waited(change['ago_ms'])} ago {change['before']} → {change['state']}{why}"
        yield from _row("" if number else "changes", [textwrap.shorten(text, WIDTH - _LABEL)], "dim")


def _command(step: str) -> list[str]:
    """A command to be copied: where it is too long for the screen, its last option stands on a line of its own."""
    head, option, place = step.rpartition(" --state ")
    if len(step) + 2 <= WIDTH or not option:
        return [f"  {step}"]
    return [f"  {head} \\", f"     {option}{place}"]


def _few(names: list[str]) -> list[str]:
    """The first ones, and how many more there are."""
    more = len(names) - _MOST_CAUSES
    return names if more <= 0 else [*names[:_MOST_CAUSES], f"and {more} more"]


def _permission(guard: Mapping[str, Any]) -> str:
    if guard["arms_itself"]:
        return f"a body that cannot move, mode {guard['mode']}"
    if not guard["permit"]:
        return "nothing may move"
    return f"may move: mode {guard['mode']}, limits {guard['limits']}, lease {guard['lease_ms']} ms"


def _conditions(guard: Mapping[str, Any]) -> Iterator[Text]:
    unknown = set(guard["not_evaluated"])
    # what nobody evaluates may be all of them, before the workers are up
    tripped = [name for name in guard["tripped"] if name not in unknown]
    yield from _row("holds now", [", ".join(tripped)] if tripped else [], "yellow")
    yield from _row("", [f"not evaluated: {', '.join(sorted(unknown))}"] if unknown else [], "yellow")


def _workers(workers: Iterable[Mapping[str, Any]]) -> Iterator[Text]:
    yield Text(
        f"{'worker':<16}{'phase':<11}{'pid':>8}  {'stage':<16}{'age':>8}{'starts':>8}  last exit", style="dim"
    )
    for one in workers:
        age = "-" if one["age_ms"] is None else _age(one["age_ms"])
        line = (
            f"{one['name']:<16}{one['phase']:<11}{one['pid'] or '-':>8}  {one['stage'] or '-':<16}"
            f"{age:>8}{one['starts']:>8}  {exit_word(one['last_exit'])}"
        )
        style = "red" if one["phase"] in _BAD_WORKERS else "" if one["phase"] == "working" else "yellow"
        yield Text(line, style=style)
        if one["crash_loop"]:
            yield from _row("", [f"{one['name']}: ends again and again; tried again after pauses"], "red")
        if one["fault"] is not None:
            yield from _row("", [f"{one['name']}: its slot is {one['fault'].replace('_', ' ')}"], "red")


def exit_word(code: int | None) -> str:
    """An exit code, or the name of the signal."""
    if code is None:
        return "-"
    try:
        return signal.Signals(-code).name if code < 0 else str(code)
    except ValueError:
        return f"signal {-code}"


def _guard(guard: Mapping[str, Any]) -> Iterator[Text]:
    words = [f"late by {guard['late_worst_us'] / 1000:.2f} ms at worst", f"{guard['turns']} turns"]
    facts = guard["facts"]
    missing = [name for name, done in facts.items() if not done]
    if not facts:
        words.append("real time not asked for")
    elif missing:
        words.append(f"without {', '.join(missing)}")
    else:
        words.append("in real time")
    yield from _row("guard", words, "yellow" if missing else "")


# -- the rest ----------------------------------------------------------------------------------------------------


def _health(snapshot: HealthSnapshot | None) -> list[Text]:
    if snapshot is None:
        return []
    lines, shown = [], False
    for line in screen_lines(snapshot):
        label = line[:_LABEL].strip()
        shown = label in _HEALTH if label else shown
        if shown:
            bad = (label == "throttling" and bool(snapshot.throttling.by)) or "READ-ONLY" in line
            lines.append(Text(line, style="yellow" if bad else ""))
    return lines


def _outbox(outbox: OutboxStatus | None) -> list[Text]:
    if outbox is None:
        return []
    share = outbox.bytes / max(1, outbox.quota_bytes)
    words = [outbox.state.value, f"{outbox.ledger.queued} queued", f"{share:.0%} of its room"]
    if outbox.oldest_age_ms is not None:
        words.append(f"oldest {waited(outbox.oldest_age_ms)}")
    words += [f"{outbox.held} held"] if outbox.held else []
    words += [f"{outbox.ledger.lost} lost"] if outbox.ledger.lost else []
    well = outbox.state.value == "healthy"
    return [*_row("queue", words, "" if well else "yellow"), *_said(outbox.sentences)]


def _cameras(cameras: tuple[CameraHealth, ...] | None) -> list[Text]:
    lines: list[Text] = []
    for camera in (cameras or ())[:_MOST_CAMERAS]:
        words = [
            camera.name,
            camera.state,
            f"age {camera.age_ms:.0f} ms",
            f"{camera.evaluated} evaluated",
            f"{camera.dropped} dropped",
        ]
        lines += _row("" if lines else "cameras", words, "" if camera.state == "running" else "yellow")
    more = len(cameras or ()) - _MOST_CAMERAS
    return [*lines, *_row("", [f"and {more} more"] if more > 0 else [])]


def _models(models: tuple[ModelStanding, ...] | None) -> list[Text]:
    lines: list[Text] = []
    for model in (models or ())[:_MOST_CAMERAS]:
        words = [model.name, f"on {model.effective}", model.backend]
        words += [f"release {model.release[:_DIGEST]}"] if model.release else []
        lines += _row("" if lines else "models", words, "yellow" if model.degraded else "")
        lines += _row("", [model.degraded] if model.degraded else [], "yellow")
        given_up = model.given_up and f"release {model.given_up[:_DIGEST]} was given up for it at the start"
        lines += _row("", [given_up] if given_up else [], "yellow")
    more = len(models or ()) - _MOST_CAMERAS
    return [*lines, *_row("", [f"and {more} more"] if more > 0 else [])]


def _way_out(way: WayOut | None) -> list[Text]:
    if way is None:
        return []
    style = {WayState.CONNECTED: "", WayState.CUT_OFF: "red"}.get(way.state, "yellow")
    words = [way.state.value.replace("_", " ")]
    if way.why is not None:
        words = [way.why] if way.why.startswith(words[0]) else [f"{words[0]}: {way.why}"]
    return list(_row("server", words, style))


def _none(label: str, reason: str) -> Iterator[Text]:
    return _row(label, [reason], "yellow")


def _said(sentences: Iterable[str]) -> Iterator[Text]:
    for sentence in sentences:
        yield from _row("", [sentence], "yellow")


# -- lines -------------------------------------------------------------------------------------------------------


def _row(label: str, words: list[str], style: str = "") -> Iterator[Text]:
    """A label and words behind it, wrapped; nothing where there are no words."""
    if not words:
        return
    wrapped = textwrap.wrap(" · ".join(words), WIDTH - _LABEL) or [""]
    for number, line in enumerate(wrapped):
        yield Text.assemble((f"{'' if number else label:{_LABEL}}", "dim"), (line, style))


def _age(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 10_000 else waited(milliseconds)
