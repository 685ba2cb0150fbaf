"""The outbox for a command: through its process where that runs, else its files, which then no process may own.

A command that opens the files itself must do so with the limits of the process: under smaller ones a released item
would evict what the queue holds, and the ring of decisions would be cut.
"""

import contextlib
from collections.abc import Iterator

from pydantic import ValidationError

from edge_runtime.clock import Clock
from edge_runtime.durable import write_file
from edge_runtime.outbox.client import OutboxClient
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.records import OutboxError, OutboxUnavailable
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger

_LIMITS = "settings.json"
_MAX_BYTES = 64 * 1024


def keep_limits(state: StateDirectory, settings: OutboxSettings) -> None:
    """Leave word of the limits that the outbox runs with. A disk that takes no file keeps the word of before."""
    data = settings.model_dump_json().encode()
    path = state.outbox / _LIMITS
    try:
        if not path.is_file() or path.read_bytes() != data:
            write_file(path, data, 0o600)
    except OSError as error:
        get_logger().warning("the outbox's limits cannot be left for commands", why=error.strerror)


def kept_limits(state: StateDirectory) -> OutboxSettings:
    """The limits that the outbox last ran with; the defaults where it never ran as a process.

    Raises:
        OutboxError: they cannot be read.
    """
    try:
        with (state.outbox / _LIMITS).open("rb") as file:
            return OutboxSettings.model_validate_json(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return OutboxSettings()
    except (OSError, ValidationError):
        raise OutboxError(
            f"{state.outbox / _LIMITS} cannot be read: start the runtime, which writes it anew"
        ) from None


@contextlib.contextmanager
def reach(state: StateDirectory, clock: Clock) -> Iterator[OutboxClient | Outbox]:
    """The outbox of a state directory, for the time of a command.

    Raises:
        OutboxError: there is none yet, a process owns it and does not answer, or its limits cannot be read.
        ConfigError: the state directory belongs to another user.
    """
    client = OutboxClient(state.outbox_socket, clock)
    try:
        client.sync_point()
    except OutboxUnavailable:
        pass
    else:
        with contextlib.closing(client):
            yield client
        return
    if not state.outbox.is_dir():
        raise OutboxError(
            f"there is no outbox at {state.path} yet: it is made when the runtime first runs with --state"
        )
    state.ensure()
    limits = kept_limits(state)
    with contextlib.closing(Outbox(state.outbox, limits, clock, evidence=state.evidence)) as outbox:
        yield outbox
