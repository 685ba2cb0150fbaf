"""How the guard's states look on a terminal, and how wide its screens are."""

from collections.abc import Mapping

from edge_runtime.guard.memory import State

WIDTH = 80
"""Columns that every screen of the guard fits into."""

_STYLES: Mapping[str, str] = {
    State.NOMINAL.value: "bold green",
    State.DEGRADED.value: "bold yellow",
    State.STANDBY.value: "bold cyan",
    State.INIT.value: "bold cyan",
    State.RECOVERY.value: "bold cyan",
    State.STOPPED.value: "bold dark_orange",
    State.SAFE.value: "bold red",
    State.LOCKOUT.value: "bold white on red",
}


def state_style(name: str) -> str:
    """The style of a state, by its name; also of one that only a newer guard knows."""
    return _STYLES.get(name, "bold")
