"""A server at the far end of a cable, and which tests a machine permits."""

import socket
import threading
from collections.abc import Iterator

import pytest

from sim.namespace import may_have_namespaces


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need a network namespace are left out and counted where there can be none."""
    left_out = [item for item in items if item.get_closest_marker("netns")]
    if left_out and not may_have_namespaces():
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(name="echo")
def _echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(end: socket.socket) -> None:
        with end:
            while data := end.recv(65_536):
                end.sendall(data)

    def serve() -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)
