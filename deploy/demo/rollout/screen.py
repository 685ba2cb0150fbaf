"""The demo's screen: a rollout with its rings, and one sign for each device; elsewhere a line for each change."""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

_HERTZ = 4
_ROW = 17
_RING = {"pending": "dim", "open": "cyan", "soaking": "yellow", "passed": "green", "failed": "bold red"}
_SIGNS = {
    "healthy": ("■", "green"),
    "probation": ("▣", "yellow"),
    "activating": ("▣", "yellow"),
    "reverted": ("✗", "bold red"),
    "refused": ("✗", "bold red"),
    "stuck": ("✗", "bold red"),
    "withdrawn": ("·", "dim"),
    "superseded": ("·", "dim"),
    "pending": ("□", "dim"),
}
_WORKING = ("▢", "cyan")


@dataclass(slots=True)
class Picture:
    """What there is to see.

    Attributes:
        title: of the rollout that is under way.
        seconds: since the demo began.
        view: the rollout as the server shows it; None before there is one.
        members: state of each device in it.
        real: the real device's id.
        runs: what the real device says of itself, in a few words.
    """

    real: str
    title: str = ""
    seconds: float = 0.0
    view: Mapping[str, Any] | None = None
    members: dict[str, str] = field(default_factory=dict)
    runs: str = ""


class Screen(AbstractContextManager["Screen"]):
    """Shows a picture while it lasts.

    Args:
        console: a terminal is drawn on, anything else gets lines.
        picture: read at every drawing.
    """

    def __init__(self, console: Console, picture: Picture) -> None:
        self._console, self._picture = console, picture
        self._told = ""
        self._live = (
            Live(console=console, get_renderable=lambda: drawn(picture), refresh_per_second=_HERTZ)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> "Screen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self) -> None:
        """Something may have changed: says what did, where nothing is drawn."""
        line = change(self._picture)
        if self._live is None and line != self._told:
            self._told = line
            self._console.print(f"{self._picture.seconds:6.1f} s  {line}", markup=False, soft_wrap=True)
            self._console.file.flush()


def change(picture: Picture) -> str:
    """The rollout in one line."""
    view = picture.view
    if view is None:
        return picture.title
    rings = " ".join(f"{stage['basis_points'] / 100:g}%:{stage['state']}" for stage in view["stages_view"])
    counts = ", ".join(f"{count} {state}" for state, count in sorted(view["counts"].items()))
    real = picture.members.get(picture.real, "not part of it")
    return f"{picture.title}: {view['state']}; {rings}; {counts}; {picture.real} {real}"


def drawn(picture: Picture) -> RenderableType:
    """One drawing; 80 columns are enough."""
    head = Text.assemble(
        (f"{picture.seconds:5.0f} s  ", "dim"), (picture.title, "bold"), "  ", _state(picture.view)
    )
    if picture.view is None:
        return head
    return Group(head, _rings(picture.view), _devices(picture), _real(picture), _reason(picture.view))


def _state(view: Mapping[str, Any] | None) -> Text:
    if view is None:
        return Text()
    style = {"completed": "bold green", "rolled-back": "bold red", "rolling-back": "red", "halted": "red"}
    return Text(view["state"], style=style.get(view["state"], "cyan"))


def _rings(view: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("ring", "state", "devices", "verdict"):
        table.add_column(
            column, no_wrap=column != "verdict", justify="right" if column == "devices" else "left"
        )
    for stage in view["stages_view"]:
        verdict = stage["verdict"]
        table.add_row(
            f"{stage['basis_points'] / 100:g} %",
            Text(stage["state"], style=_RING.get(stage["state"], "default")),
            str(stage["devices"]),
            Text(verdict["text"] if verdict else stage["waits_for"], style="dim"),
        )
    return table


def _devices(picture: Picture) -> Text:
    text = Text()
    for number, (device, state) in enumerate(sorted(picture.members.items())):
        sign, style = _SIGNS.get(state, _WORKING)
        text.append(f"{sign} ", style=f"{style} underline" if device == picture.real else style)
        if number % _ROW == _ROW - 1:
            text.append("\n")
    counts = Counter(picture.members.values())
    return text.append("\n").append(
        ", ".join(f"{count} {state}" for state, count in counts.most_common()), style="dim"
    )


def _real(picture: Picture) -> Text:
    state = picture.members.get(picture.real, "not part of it")
    _, style = _SIGNS.get(state, _WORKING)
    return Text.assemble((picture.real, "bold"), " (real): ", (state, style), f"  {picture.runs}")


def _reason(view: Mapping[str, Any]) -> Text:
    codes = ", ".join(f"{count} {code}" for code, count in sorted(view["codes"].items()))
    return Text(f"{codes}  {view['reason']}" if codes else view["reason"], style="yellow" if codes else "dim")
