"""A rollout while it goes on: a picture on a terminal, a line for each change in a pipe.

It asks the server anew every second and shows nothing that the server did not say. It ends where nothing happens
any more before a person acts; what a rollout then stands at is the exit code.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fleet_server.cli.client import FleetClient, segment
from fleet_server.cli.errors import NotReachable
from fleet_server.cli.output import say, width, write, write_json_line
from fleet_server.cli.rollout_exits import stands
from fleet_server.cli.rollout_forms import change_line, status_lines

POLL_S = 1.0
_LONGEST_PAUSE_S = 15.0
_IGNORED = ("changed_ms",)


def watch(client: FleetClient, rollout: str, *, json: bool) -> Any:
    """Show a rollout until nothing happens any more; what it then is.

    Args:
        client: of the server. One that goes away is waited for.
        rollout: its id.
        json: one JSON value a line, each time that something changed.
    """
    with _shown(json=json) as show:
        last: Any = None
        for view in _followed(client, rollout):
            if last is None or _told(view) != _told(last):
                show(view)
            last = view
            if stands(view):
                break
        return last


def _followed(client: FleetClient, rollout: str) -> Iterator[Any]:
    """The rollout again and again; errors of the first answer are raised, later ones of the network waited out."""
    path = f"/v1/rollouts/{segment(rollout)}"
    yield client.get(path)
    pause_s, lost = POLL_S, False
    while True:
        time.sleep(pause_s)
        try:
            found = client.get(path)
        except NotReachable as error:
            if not lost:
                say(f"{error}; waiting for it")
            pause_s, lost = min(pause_s * 2, _LONGEST_PAUSE_S), True
            continue
        pause_s, lost = POLL_S, False
        yield found


def _told(view: Any) -> dict[str, Any]:
    return {name: value for name, value in view.items() if name not in _IGNORED}


@contextmanager
def _shown(*, json: bool) -> Iterator[Callable[[Any], None]]:
    """What shows one state of a rollout; the last picture stays on the terminal."""
    if json:
        yield write_json_line
        return
    if width() is None:
        yield lambda view: write(change_line(view))
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False, vertical_overflow="crop") as live:

        def draw(view: Any) -> None:
            lines = [Text(line, no_wrap=True) for line in status_lines(view, width())]
            lines[0].stylize(_STYLES.get(view["state"], "bold"))
            live.update(Text("\n").join(lines), refresh=True)

        yield draw


_STYLES = {
    "running": "bold green",
    "completed": "bold green",
    "paused": "bold yellow",
    "halted": "bold red",
    "rolling-back": "bold red",
    "rolled-back": "bold red",
}
