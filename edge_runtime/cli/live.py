"""The live view of a run: one line per camera and the latest events, on a terminal only.

It reads snapshots on a thread of its own and never touches a frame. One picture takes rich 7 to 18 ms of a busy
core, which the loop's threads share: hence 2.5 a second. Without a terminal it prints nothing at all.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from edge_runtime.cli.summary import bar, by_cause, print_summary, state_style

if TYPE_CHECKING:
    from edge_runtime.node.node import Node
    from edge_runtime.node.snapshot import CameraSnapshot, RunSnapshot

__all__ = ["LiveView", "live_screen", "live_view", "print_summary"]

HERTZ = 2.5
_RATE_WINDOW_S = 2.0
_MOST_CAMERAS = 16
_COLUMNS = 8
_BAR_WIDTH = 12
_SEVERITY_STYLES = {"info": "blue", "notice": "yellow", "warning": "dark_orange", "critical": "bold red"}


def live_view(node: "Node", *, quiet: bool = False, title: str = "") -> "LiveView":
    """The live view of `node` on stderr, where its logs go too and pass above it."""
    return LiveView(Console(stderr=True, quiet=quiet), node.snapshot, title)


class LiveView(AbstractContextManager["LiveView"]):
    """Shows a run while it lasts.

    Args:
        console: where; nothing is shown unless it is a terminal.
        snapshot: gives the run as it stands; called from the view's own thread.
        title: one line above, for example the configuration's name.
    """

    def __init__(self, console: Console, snapshot: "Callable[[], RunSnapshot]", title: str = "") -> None:
        self._snapshot = snapshot
        self._title = title
        self._rates = Rates()
        self._live = (
            Live(
                console=console,
                get_renderable=self._render,
                refresh_per_second=HERTZ,
                transient=True,
            )
            if console.is_terminal and not console.quiet
            else None
        )

    def __enter__(self) -> "LiveView":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def _render(self) -> Group:
        snapshot = self._snapshot()
        self._rates.add(snapshot)
        return live_screen(snapshot, self._rates.per_second(), self._title)


class Rates:
    """Frames per second of each camera over the last two seconds, from successive snapshots."""

    def __init__(self) -> None:
        self._past: list[tuple[float, dict[str, int]]] = []

    def add(self, snapshot: "RunSnapshot") -> None:
        """Takes in one snapshot."""
        counts = {name: camera.evaluated for name, camera in snapshot.cameras.items()}
        self._past.append((snapshot.seconds, counts))
        while len(self._past) > 2 and self._past[1][0] <= snapshot.seconds - _RATE_WINDOW_S:
            del self._past[0]

    def per_second(self) -> dict[str, float]:
        """The rates; 0 until two snapshots have been seen."""
        (first_s, first), (last_s, last) = self._past[0], self._past[-1]
        elapsed = last_s - first_s
        return {name: (last[name] - first.get(name, 0)) / elapsed if elapsed > 0 else 0.0 for name in last}


def live_screen(snapshot: "RunSnapshot", rates: Mapping[str, float], title: str = "") -> Group:
    """One picture of the live view."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("camera")
    table.add_column("state")
    for heading in ("frames", "fps", "age ms", "tracks"):
        table.add_column(heading, justify="right", min_width=6)
    table.add_column("no answer")
    table.add_column("dropped")
    if any(camera.expected for camera in snapshot.cameras.values()):
        table.add_column("done", no_wrap=True)
    rows = list(snapshot.cameras.items())
    for name, camera in rows[:_MOST_CAMERAS]:
        table.add_row(
            name,
            Text(camera.state, style=state_style(camera)),
            str(camera.evaluated),
            f"{rates.get(name, 0.0):.1f}",
            f"{camera.age_ms:.0f}",
            str(camera.tracks),
            Text(by_cause(camera.not_evaluated), style="yellow" if camera.not_evaluated else "dim"),
            by_cause(camera.drops),
            *_progress(camera, known=len(table.columns) > _COLUMNS),
        )
    if len(rows) > _MOST_CAMERAS:
        table.add_row(f"and {len(rows) - _MOST_CAMERAS} more")
    lines = [Text(f"{title}  {snapshot.seconds:.0f} s  {_problems(snapshot.cameras)}".strip(), style="bold")]
    return Group(*lines, *_degraded(snapshot), table, *_recent(snapshot))


def _degraded(snapshot: "RunSnapshot") -> list[Text]:
    return [
        Text(f"{name} is degraded: {model.degraded}", style="bold yellow")
        for name, model in snapshot.models.items()
        if model.degraded is not None
    ]


def _progress(camera: "CameraSnapshot", *, known: bool) -> list[Text]:
    if not known:
        return []
    if not camera.expected:
        return [Text("")]
    share = min(camera.evaluated / camera.expected, 1.0)
    return [Text(f"{bar(share, _BAR_WIDTH)} {share:.0%}", style="cyan")]


def _recent(snapshot: "RunSnapshot") -> list[Text]:
    from edge_runtime.annotation import event_caption

    several = len(snapshot.cameras) > 1
    return [
        Text(
            (f"{event.camera}  " if several else "") + event_caption(event),
            style=_SEVERITY_STYLES[event.severity.value],
        )
        for event in snapshot.recent[::-1]
    ]


def _problems(cameras: "Mapping[str, CameraSnapshot]") -> str:
    failed = sorted(name for name, camera in cameras.items() if camera.state == "failed")
    return f"failed: {', '.join(failed)}" if failed else ""
