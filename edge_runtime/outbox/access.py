"""The outbox for a command: through its process where that runs, else its files, which then no process may own."""

import contextlib
from collections.abc import Iterator

from edge_runtime.clock import Clock
from edge_runtime.outbox.client import OutboxClient
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.records import OutboxError, OutboxUnavailable
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.state import StateDirectory


@contextlib.contextmanager
def reach(state: StateDirectory, clock: Clock) -> Iterator[OutboxClient | Outbox]:
    """The outbox of a state directory, for the time of a command.

    Raises:
        OutboxError: there is none yet, or a process owns it and does not answer.
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
    with contextlib.closing(Outbox(state.outbox, OutboxSettings(), clock, evidence=state.evidence)) as outbox:
        yield outbox
