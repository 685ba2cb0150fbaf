"""The one screen at the end of a run: frames, rates, drops, events, and where the time went."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from edge_runtime.node.delivery import DeliverySnapshot
    from edge_runtime.node.snapshot import CameraSnapshot, RunSnapshot

_ENDLESS = 2000
_BAR_WIDTH = 18
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NOT_WORK = {"age": "age at evaluation"}
"""Durations that are measured but are nobody's work, with the words for them."""
_MOST_ROWS = 8
"""Cameras and rules listed one by one; more are summed up, so that it stays one screen."""


def summary_screen(
    snapshot: "RunSnapshot",
    files: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    delivery: "DeliverySnapshot | None" = None,
) -> Group:
    """Everything that a person asks right after a run.

    Args:
        snapshot: of the run at its end.
        files: what was written, by name of its kind, for example `events` and a path.
        notes: what else must be known: a degraded provider, a video that could not be finished.
        delivery: how delivery stood at the end, where the configuration has one.

    Returns:
        Something that rich prints; about 20 lines for one camera.
    """
    parts: list[RenderableType] = [
        _headline(snapshot),
        _cameras(snapshot),
        *_errors(snapshot),
        _events(snapshot),
    ]
    if delivery is not None:
        parts += [_gate(delivery), _outbox(delivery), _way_out(delivery)]
    if snapshot.stages:
        parts.append(_stages(snapshot))
    if files:
        parts.append(_files(files))
    parts += [Text(note, style="yellow") for note in notes]
    return Group(*parts)


def print_summary(
    snapshot: "RunSnapshot",
    *,
    to_stderr: bool = False,
    files: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    delivery: "DeliverySnapshot | None" = None,
) -> None:
    """Prints `summary_screen` on stdout, or on stderr where stdout carries the events.

    In a pipe or a file each sentence is one line and each name whole, unless COLUMNS says how wide it is.
    """
    console = Console(stderr=to_stderr, highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console = Console(stderr=to_stderr, highlight=False, width=_ENDLESS)
    console.print(summary_screen(snapshot, files, notes, delivery))


def _headline(snapshot: "RunSnapshot") -> Text:
    text = Text.assemble(
        (f"{snapshot.frames} frames", "bold"),
        f" in {snapshot.seconds:.1f} s, ",
        (f"{snapshot.fps:.1f} frames/s", "bold"),
    )
    if snapshot.interrupted:
        text.append("  interrupted", style="yellow")
    return text


def _cameras(snapshot: "RunSnapshot") -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("camera", overflow="fold")
    table.add_column("state")
    table.add_column("decoded", justify="right")
    table.add_column("evaluated", justify="right")
    table.add_column("no answer")
    table.add_column("dropped")
    table.add_column("reconnects", justify="right")
    rows = list(snapshot.cameras.items())
    shown = rows if len(rows) <= _MOST_ROWS else rows[: _MOST_ROWS - 1]
    for name, camera in shown:
        table.add_row(
            name,
            Text(camera.state, style=state_style(camera)),
            str(camera.decoded),
            str(camera.evaluated),
            by_cause(camera.not_evaluated),
            by_cause(camera.drops),
            str(camera.reconnects),
        )
    if len(shown) < len(rows):
        rest = [camera for _, camera in rows[len(shown) :]]
        table.add_row(
            f"{len(rest)} more",
            "",
            str(sum(camera.decoded for camera in rest)),
            str(sum(camera.evaluated for camera in rest)),
            str(sum(sum(camera.not_evaluated.values()) for camera in rest)),
            str(sum(sum(camera.drops.values()) for camera in rest)),
            str(sum(camera.reconnects for camera in rest)),
        )
    return table


def _errors(snapshot: "RunSnapshot") -> list[Text]:
    failing = [(name, camera.error) for name, camera in snapshot.cameras.items() if camera.error]
    lines = [Text(f"{name}: {error}", style="red") for name, error in failing[:_MOST_ROWS]]
    if len(failing) > _MOST_ROWS:
        lines.append(Text(f"and {len(failing) - _MOST_ROWS} more cameras with an error", style="red"))
    return lines


def _events(snapshot: "RunSnapshot") -> Text:
    counts: dict[str, int] = {}
    for name, camera in snapshot.cameras.items():
        for rule, count in camera.events.items():
            label = rule if len(snapshot.cameras) == 1 else f"{name}/{rule}"
            counts[label] = counts.get(label, 0) + count
    heard = sorted(((count, rule) for rule, count in counts.items() if count), reverse=True)
    text = Text.assemble(("events  ", "dim"))
    if not heard:
        return text.append("none")
    listed = ", ".join(f"{rule} {count}" for count, rule in heard[:_MOST_ROWS])
    if len(heard) > _MOST_ROWS:
        listed += (
            f", and {sum(count for count, _ in heard[_MOST_ROWS:])} of {len(heard) - _MOST_ROWS} more rules"
        )
    return text.append(listed)


def _gate(delivery: "DeliverySnapshot") -> Text:
    decided, waiting = delivery.gate.decided, delivery.gate.waiting
    kinds = {"sent": "send", "kept": "keep", "held": "hold"}
    text = Text.assemble(("gate    ", "dim"))
    text.append(", ".join(f"{decided.get(kind, 0)} {word}" for word, kind in kinds.items()))
    return text.append(f"; {waiting} not decided", style="yellow") if waiting else text


def _outbox(delivery: "DeliverySnapshot") -> Text:
    text = Text.assemble(("outbox  ", "dim"))
    outbox = delivery.outbox
    if outbox is None:
        return text.append("does not answer", style="bold red")
    ledger = outbox.ledger
    fates = {
        name: getattr(ledger, name)
        for name in ("delivered", "queued", "expired", "evicted", "rejected", "lost")
    }
    listed = ", ".join(f"{count} {name}" for name, count in fates.items() if count)
    text.append(f"{ledger.accepted} accepted" + (f": {listed}" if listed else ""))
    beside = {"held": outbox.held, "not accepted": sum(outbox.not_accepted.values())}
    return text.append("".join(f"; {count} {name}" for name, count in beside.items() if count))


def _way_out(delivery: "DeliverySnapshot") -> Text:
    way = delivery.way_out
    text = Text.assemble(("server  ", "dim"))
    if way.state.value == "connected":
        text.append("connected")
        return text if way.why is None else text.append(f"; {way.why}", style="yellow")
    if way.state.value == "cut_off":
        return text.append(f"CUT OFF: {way.why}", style="bold red")
    return text.append(way.why or "", style="yellow")


def _stages(snapshot: "RunSnapshot") -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("where the time went", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR_WIDTH)
    for heading in ("share", "p50 ms", "p95 ms", "p99 ms", "runs"):
        table.add_column(heading, justify="right")
    spent = {name: stage.total_ms for name, stage in snapshot.stages.items() if name not in _NOT_WORK}
    whole = sum(spent.values()) or 1.0
    for name, stage in sorted(snapshot.stages.items(), key=lambda row: row[0] in _NOT_WORK):
        share = spent.get(name, 0.0) / whole
        table.add_row(
            _NOT_WORK.get(name, name),
            Text(bar(share), style="cyan"),
            f"{share:.0%}" if name in spent else "",
            f"{stage.p50_ms:.2f}",
            f"{stage.p95_ms:.2f}",
            f"{stage.p99_ms:.2f}",
            str(stage.count),
        )
    return table


def _files(files: Mapping[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for kind, path in files.items():
        table.add_row(kind, path)
    return table


def bar(share: float, width: int = _BAR_WIDTH) -> str:
    """A bar of `share` (0..1) in eighths of a character, `width` characters wide."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def by_cause(counts: Mapping[str, int]) -> str:
    """Counts by cause, largest first; `-` where there are none."""
    present = sorted(((count, cause) for cause, count in counts.items() if count), reverse=True)
    return ", ".join(f"{cause.replace('_', ' ')} {count}" for count, cause in present) or "-"


def state_style(camera: "CameraSnapshot") -> str:
    """Colour of a source's state."""
    return {"running": "green", "ended": "default", "failed": "bold red", "starting": "cyan"}.get(
        camera.state, "yellow"
    )
