"""Messages on the outbox's socket: four bytes of length, then msgpack. Both sides read no more than a limit."""

import socket
import struct
from typing import Any

import msgpack

from edge_runtime.clock import NS_PER_S, Clock

MAX_FRAME_BYTES = 8 * 1024 * 1024
"""A put of 256 of the largest submissions is 5 MiB."""

_LENGTH = struct.Struct(">I")
_CHUNK = 256 * 1024


class FrameError(ValueError):
    """What came is no frame of ours; the connection cannot go on."""


class Disconnected(ConnectionError):
    """The other side is gone."""


def encode_frame(value: Any) -> bytes:
    """A message with its length.

    Raises:
        FrameError: it is longer than a frame may be.
    """
    data: bytes = msgpack.packb(value)
    if len(data) > MAX_FRAME_BYTES:
        raise FrameError(f"an answer of {len(data)} bytes is longer than {MAX_FRAME_BYTES}; ask for less")
    return _LENGTH.pack(len(data)) + data


def read_frame(connection: socket.socket, clock: Clock, timeout_s: float, *, first_s: float | None) -> Any:
    """The next message.

    Args:
        connection: a stream socket.
        clock: measures the timeout.
        timeout_s: for the whole frame, from its first byte on.
        first_s: until its first byte; None waits for ever.

    Raises:
        Disconnected: the other side closed the connection before a frame was complete.
        FrameError: too long, or not msgpack.
        TimeoutError: it took too long.
    """
    connection.settimeout(first_s)
    begin = connection.recv(4)
    deadline = clock.monotonic_ns() + round(timeout_s * NS_PER_S)
    if not begin:
        raise Disconnected("the other side closed the connection")
    header = begin + _read(connection, 4 - len(begin), clock, deadline)
    length = _LENGTH.unpack(header)[0]
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes; at most {MAX_FRAME_BYTES} are read")
    data = _read(connection, length, clock, deadline)
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"not msgpack: {type(error).__name__}") from None


def has_left(connection: socket.socket) -> bool:
    """Whether the other side closed the connection; nothing is read from it, and nothing is waited for."""
    connection.settimeout(0)  # with a timeout of its own, Python waits before it asks the kernel
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _read(connection: socket.socket, number: int, clock: Clock, deadline_ns: int) -> bytes:
    parts: list[bytes] = []
    while number > 0:
        left = (deadline_ns - clock.monotonic_ns()) / NS_PER_S
        if left <= 0:
            raise TimeoutError("a frame was not complete in time")
        connection.settimeout(left)
        part = connection.recv(min(number, _CHUNK))
        if not part:
            raise Disconnected("the other side left in the middle of a frame")
        parts.append(part)
        number -= len(part)
    return b"".join(parts)
