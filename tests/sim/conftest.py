"""A server at the far end of a cable."""

import socket
import threading
from collections.abc import Iterator

import pytest


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
