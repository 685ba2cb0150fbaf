"""How the processes of a device that wait on sockets hear that they should end."""

import contextlib
import signal
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def asked_to_end() -> Iterator[socket.socket]:
    """A socket that becomes readable when SIGTERM or SIGINT arrives, also one that comes before anybody waits."""
    reading, writing = socket.socketpair()
    writing.settimeout(0)

    def ask(_number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            writing.send(b"e")

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        reading.close()
        writing.close()
