"""The processes of a device as its guard sees them."""

from dataclasses import dataclass
from typing import Any

from edge_runtime.guard.client import NoGuard, ask
from edge_runtime.state import StateDirectory

_ANSWER_S = 1.0
_RUNS = ("starting", "working")


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One process.

    Attributes:
        name: in the guard's table.
        runs: it starts or works.
        pid: None where there is none.
        restarts: starts after the first one.
        last_exit: exit code of the last run, negative for a signal; None while there was none.
    """

    name: str
    runs: bool
    pid: int | None
    restarts: int
    last_exit: int | None


def ask_guard(state: StateDirectory) -> dict[str, Any] | None:
    """The status of the guard of a state directory; None where none answers within a second."""
    try:
        return ask(state.guard_socket, {"ask": "status"}, _ANSWER_S)
    except NoGuard:
        return None


def workers_of(status: dict[str, Any] | None) -> tuple[WorkerStatus, ...]:
    """The processes in a guard's status; none where there is no status."""
    return tuple(
        WorkerStatus(
            name=row["name"],
            runs=row["phase"] in _RUNS,
            pid=row["pid"],
            restarts=max(0, row["starts"] - 1),
            last_exit=row["last_exit"],
        )
        for row in (status or {}).get("workers", ())
    )
