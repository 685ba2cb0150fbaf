"""Messages on the outbox's socket: four bytes of length, then msgpack. Both sides read no more than a limit.

A usual message costs one system call on each side. The socket stays in blocking mode, and the kernel keeps the
time: a timeout of Python's own costs two more calls for each read.
"""

import socket
import struct
from typing import Any

import msgpack

from edge_runtime.clock import NS_PER_S, Clock

MAX_FRAME_BYTES = 8 * 1024 * 1024
"""A put of 256 of the largest submissions is 5 MiB."""

_LENGTH = struct.Struct(">I")
_HEAD = _LENGTH.size
_ROOM = 256 * 1024
"""What is read with one call; a put or a lease of 64 events of the usual length has 70 KiB."""

_TIMEVAL = struct.Struct("@ll")


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


class FrameStream:
    """One side of a connection; one thread at a time uses it.

    Args:
        connection: a stream socket in blocking mode, which this owns from now on.
        clock: measures the timeouts.
    """

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        self._room = bytearray(_ROOM)
        self._have = 0  # bytes in it
        self._limit_s: float | None = None

    def read(self, timeout_s: float, *, first_s: float | None) -> Any:
        """The next message.

        Args:
            timeout_s: for the whole frame, from its first bytes on.
            first_s: until its first bytes; None waits for ever.

        Raises:
            Disconnected: the other side closed the connection before a frame was complete.
            FrameError: too long, or not msgpack.
            TimeoutError: it took too long.
        """
        if not self._have:
            self._receive(first_s)
        if self._have < _HEAD or self._have < self._total():
            deadline = self._clock.monotonic_ns() + round(timeout_s * NS_PER_S)
            self._complete(_HEAD, deadline)
            self._complete(self._total(), deadline)
        total = self._total()
        with memoryview(self._room) as view:
            try:
                value = msgpack.unpackb(view[_HEAD:total], strict_map_key=False)
            except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
                raise FrameError(f"not msgpack: {type(error).__name__}") from None
        rest = self._room[total : self._have] if self._have > total else b""
        if len(self._room) > _ROOM:
            self._room = bytearray(max(_ROOM, len(rest)))
        self._room[: len(rest)] = rest
        self._have = len(rest)
        return value

    def send(self, frame: bytes, timeout_s: float) -> None:
        """Send a message.

        Raises:
            OSError: the other side is gone.
            TimeoutError: it does not read.
        """
        try:
            sent = self._connection.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        if sent < len(frame):
            self._connection.settimeout(timeout_s)
            try:
                self._connection.sendall(memoryview(frame)[sent:])
            finally:
                self._connection.settimeout(None)

    def has_left(self) -> bool:
        """Whether the other side closed the connection; nothing is read from it, and nothing is waited for."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _total(self) -> int:
        length: int = _LENGTH.unpack_from(self._room)[0]
        if length > MAX_FRAME_BYTES:
            raise FrameError(f"a frame of {length} bytes; at most {MAX_FRAME_BYTES} are read")
        return _HEAD + length

    def _complete(self, total: int, deadline_ns: int) -> None:
        """Read until so many bytes are here. What is announced takes memory only as it comes."""
        while self._have < total:
            if self._have == len(self._room):
                self._room.extend(bytes(min(total, 2 * self._have) - self._have))
            left = (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S
            if left <= 0:
                raise TimeoutError("a frame was not complete in time")
            self._receive(left, min(total, len(self._room)) - self._have)

    def _receive(self, limit_s: float | None, number: int = 0) -> None:
        """Read what is there, or wait for exactly so many bytes."""
        if limit_s != self._limit_s:
            self._limit(limit_s)
        flags = socket.MSG_WAITALL if number else 0
        with memoryview(self._room) as view:
            try:
                got = self._connection.recv_into(view[self._have :], number, flags)
            except BlockingIOError:
                raise TimeoutError("nothing came in time") from None
        if not got:
            raise Disconnected("the other side closed the connection")
        self._have += got

    def _limit(self, limit_s: float | None) -> None:
        """Have the kernel give up after so long; 0 would mean never."""
        seconds, rest = divmod(limit_s or 0.0, 1)
        value = _TIMEVAL.pack(int(seconds), max(1 if limit_s else 0, int(rest * 1_000_000)))
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._limit_s = limit_s
