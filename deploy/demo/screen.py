"""The demo's one screen: the road on top, the device below, and the events as the server commits them.

On a terminal it is drawn in place; elsewhere it becomes a line for each thing that happens.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deploy.demo.cut import Link
from deploy.demo.watch import Arrival, View

_HERTZ = 4
_BESIDES = 12
"""Lines of the screen that are not events, and of the prompt below it."""

_MOST_EVENTS = 16
_BAR_WIDTH = 10
_BAR_S = 8.0
_LATE_S = 1.0
_WIDEST = 100
_WIRE = 24
_SEVERITY = {"info": "blue", "notice": "yellow", "warning": "dark_orange", "critical": "bold red"}
_LINK = {
    Link.CONNECTING: "cyan",
    Link.CONNECTED: "green",
    Link.CUT: "bold red",
    Link.RECONNECTING: "yellow",
    Link.CATCHING_UP: "bold yellow",
}


class Screen(AbstractContextManager["Screen"]):
    """Shows a view while it lasts.

    Args:
        console: where; a terminal is drawn on, anything else gets lines.
        view: read at every picture.
        tick: brings the view's times up to date before each picture.
    """

    def __init__(self, console: Console, view: View, tick: Callable[[], None]) -> None:
        self._console, self._view, self._tick = console, view, tick
        self._told = 0
        self._state = self._link = ""
        self._live = (
            Live(
                console=console,
                get_renderable=self._picture,
                refresh_per_second=_HERTZ,
                redirect_stdout=False,
                redirect_stderr=False,
            )
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
        if self._live is not None:
            return
        view = self._view
        if view.state != self._state:
            self._state = view.state
            self._say(f"{view.seconds:6.1f} s  camera {view.state}")
        if view.link.value != self._link:
            self._link = view.link.value
            queued = "" if view.queue is None else f", {view.queue.queued} queued"
            self._say(f"{view.seconds:6.1f} s  cable {self._link}{queued}")
        for arrival in view.arrivals[self._told :]:
            self._say(f"{view.seconds:6.1f} s  {arrival_line(arrival)}")
        self._told = len(view.arrivals)

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()

    def _picture(self) -> RenderableType:
        self._tick()
        return picture(self._view, self._console.width, self._console.height)


def arrival_line(arrival: Arrival) -> str:
    """One event as one line."""
    crop = ", with a redacted crop" if arrival.crop else ""
    return f"event {_media(arrival)} {arrival.what}: committed {_delay(arrival)} after it happened{crop}"


def picture(view: View, width: int = 80, height: int = 40) -> Group:
    """One picture; 80 columns are enough.

    Args:
        view: what there is to see.
        width: columns of the terminal.
        height: lines of the terminal.
    """
    return Group(
        _road(view, min(width, _WIDEST)), _device(view), _queue(view), _held(view), _events(view, height)
    )


def _road(view: View, width: int) -> Text:
    style = _LINK[view.link]
    words = view.link.value
    if view.link is Link.CUT:
        words = f"✂ CUT for {view.link_s:.0f} s"
    wire = "╌" if view.link in (Link.CONNECTING, Link.RECONNECTING) else "━"
    ends = (" ", " ") if view.link is Link.CUT else ("", "")
    rest = width - len(view.device) - len(view.server) - len(words) - 4 - len("".join(ends))
    left = max(1, rest // 2)
    right = max(1, rest - left)
    return Text.assemble(
        (view.device, "bold"),
        " ",
        (wire * left + ends[0] + " " + words + " " + ends[1] + wire * right, style),
        " ",
        (view.server, "bold"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _device(view: View) -> Text:
    state = "green" if view.state == "running" else "default" if view.state == "ended" else "cyan"
    text = Text.assemble(("camera  ", "dim"), (f"{view.state:<9}", state))
    if view.total:
        share = min(1.0, view.frames / view.total)
        full = round(share * _WIRE)
        text.append("━" * full, style="cyan").append("─" * (_WIRE - full), style="dim")
        text.append(f"  {view.frames} of {view.total} frames")
    else:
        text.append(f"{view.frames} frames, {view.seconds:.0f} s")
        return text
    return text.append(f", {view.seconds:.0f} s", style="dim")


def _queue(view: View) -> Text:
    text = Text.assemble(("outbox  ", "dim"))
    queue = view.queue
    if queue is None:
        return text.append("starting", style="cyan")
    text.append("queued ").append(f"{queue.queued:>2}", style="bold yellow" if queue.queued else "default")
    text.append("█" * min(queue.queued, _WIRE), style="yellow").append("  ")
    text.append("delivered ").append(
        f"{queue.delivered}", style="bold green" if queue.delivered else "default"
    )
    text.append("  held ").append(f"{queue.held}", style="bold red" if queue.held else "default")
    if queue.crops_due or queue.crops_uploaded:
        text.append(f"  crops {queue.crops_uploaded} of {queue.crops_due + queue.crops_uploaded}")
    return text.append(f"  {kilobytes(view.bytes_up)} sent", style="dim")


def _held(view: View) -> Text:
    if view.queue is None or not view.queue.held:
        return Text()
    return Text.assemble(("held    ", "bold red"), (view.hint or "edge-runtime gate list says why", "yellow"))


def _events(view: View, height: int) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("#", justify="right", style="dim")
    table.add_column("clip", justify="right")
    table.add_column("committed at the server", no_wrap=True, min_width=32)
    table.add_column("severity")
    table.add_column("delay", justify="right")
    table.add_column("", no_wrap=True, min_width=_BAR_WIDTH)
    most = max(3, min(_MOST_EVENTS, height - _BESIDES))
    for arrival in view.arrivals[-most:]:
        late = "bold yellow" if arrival.delay_s >= _LATE_S else "green"
        what = Text(arrival.what).append(" + crop" if arrival.crop else "", style="magenta")
        table.add_row(
            str(arrival.id),
            _media(arrival),
            what,
            Text(arrival.severity, style=_SEVERITY.get(arrival.severity, "default")),
            Text(_delay(arrival), style=late),
            Text("▇" * max(1, round(min(1.0, arrival.delay_s / _BAR_S) * _BAR_WIDTH)), style=late),
        )
    return table if view.arrivals else Group(table, Text("nothing yet", style="dim"))


def _media(arrival: Arrival) -> str:
    return "-" if arrival.media_s is None else f"{arrival.media_s:.1f} s"


def _delay(arrival: Arrival) -> str:
    return f"{arrival.delay_s:.2f} s"


def kilobytes(number: int) -> str:
    """A number of bytes for people."""
    return f"{number / 1000:.1f} kB"
