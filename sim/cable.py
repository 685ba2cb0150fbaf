"""A network cable between two programs on loopback that counts bytes and can be cut, frozen and healed."""

import contextlib
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from typing_extensions import Self

_CHUNK = 65_536
_MAX_BUFFER = 1 << 20
_BACKLOG = 1024
"""Connections that may wait to be let in: a whole fleet comes back at once."""


class Pending(bytearray):
    """What waits in one direction of one connection.

    Attributes:
        held: what a worse network holds back of it: (due, bytes), in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held: deque[tuple[int, int]] = deque()


@dataclass(slots=True)
class _Pair:
    """One connection through the cable."""

    near: socket.socket
    far: socket.socket
    up: Pending = field(default_factory=Pending)
    down: Pending = field(default_factory=Pending)


class Cable:
    """Listens on loopback and forwards every connection to `target`.

    Args:
        target: host and port of new connections.
        listen: address to listen at, and a port, 0 for any.

    Attributes:
        host, port: where to connect instead of the target.
        target: host and port of new connections.
        connections: accepted so far.
        breaks: of them, those that ended, by whichever side or by the cable.
        tap: is given every piece of bytes that comes in at either end, in the cable's thread; or None.
    """

    def __init__(self, target: tuple[str, int], listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.target = target
        self._listener = socket.create_server(listen, backlog=_BACKLOG)
        self._listener.settimeout(0)
        self.host = "localhost" if listen[0] == "127.0.0.1" else listen[0]
        self.port: int = self._listener.getsockname()[1]
        self._bytes_up = self._bytes_down = self.connections = self.breaks = 0
        self.tap: Callable[[bytes], None] | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._pairs: list[_Pair] = []
        self._is_cut = self._is_frozen = False
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._forward, name="cable", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bytes_up(self) -> int:
        """Forwarded from whoever connects here to the target; never less than the target has received."""
        with self._lock:
            return self._bytes_up

    @property
    def bytes_down(self) -> int:
        """Forwarded back; never less than whoever connects here has received."""
        with self._lock:
            return self._bytes_down

    def within(self, arguments: Sequence[str]) -> list[str]:
        """The command line of a program that runs at the near end of it; on loopback that is anywhere."""
        return list(arguments)

    def cut(self) -> None:
        """Break every connection, and every new one at once."""
        with self._lock:
            self._is_cut = True
            self._drop_all()

    def kick(self) -> None:
        """Break every connection; new ones are let in."""
        with self._lock:
            self._drop_all()

    def freeze(self) -> None:
        """Swallow nothing and forward nothing: a dead link that nobody has noticed yet."""
        with self._lock:
            self._is_frozen = True

    def heal(self) -> None:
        """Work again; what was broken stays broken, what was frozen goes on."""
        with self._lock:
            self._is_cut = self._is_frozen = False

    def close(self) -> None:
        """End the cable."""
        self._closing.set()
        self._thread.join(5)
        with self._lock:
            self._drop_all()
            self._selector.close()
            self._listener.close()

    # ---- in the cable's thread

    def _forward(self) -> None:
        while not self._closing.is_set():
            with self._lock:
                frozen = self._is_frozen
            if frozen:
                self._closing.wait(0.02)
                continue
            ready = self._selector.select(0.02)
            with self._lock:
                self._release()
                for key, events in ready:
                    if key.data is None:
                        self._accept()
                    elif key.data in self._pairs and not self._is_frozen:
                        self._move(key.data, key.fileobj, events)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            near, _ = self._listener.accept()
            self.connections += 1
            if self._is_cut:
                near.close()
                return
            try:
                far = self._reach(near)
            except OSError:
                near.close()
                return
            pair = _Pair(near, far)
            for end in (near, far):
                end.settimeout(0)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(end, selectors.EVENT_READ, pair)
            self._pairs.append(pair)

    def _move(self, pair: _Pair, end: object, events: int) -> None:
        from_near = end is pair.near
        source, sink = (pair.near, pair.far) if from_near else (pair.far, pair.near)
        try:
            if events & selectors.EVENT_READ:
                data = source.recv(_CHUNK)
                if not data:
                    self._drop(pair)
                    return
                if self.tap is not None:
                    self.tap(data)
                (pair.up if from_near else pair.down).extend(data)
                self._flush(pair, sink, to_far=from_near)
            if events & selectors.EVENT_WRITE:
                self._flush(pair, source, to_far=not from_near)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(pair)

    def _flush(self, pair: _Pair, sink: socket.socket, *, to_far: bool) -> None:
        buffer = pair.up if to_far else pair.down
        with contextlib.suppress(BlockingIOError):
            while buffer and (allowed := self._allowed(buffer)):
                sent = sink.send(buffer[: min(_CHUNK, allowed)])
                del buffer[:sent]
                self._passed(buffer, sent)
                if to_far:
                    self._bytes_up += sent
                else:
                    self._bytes_down += sent
        for end, pending, filling in ((pair.near, pair.down, pair.up), (pair.far, pair.up, pair.down)):
            wanted = selectors.EVENT_WRITE if pending and self._allowed(pending) else 0
            if len(filling) < _MAX_BUFFER:
                wanted |= selectors.EVENT_READ
            self._selector.modify(end, wanted or self._idle(pending), pair)

    # ---- what a worse network than a cable does otherwise

    def _reach(self, near: socket.socket) -> socket.socket:  # noqa: ARG002 - of a connection that came in
        """The far end of a new connection; an OSError where there is none."""
        return socket.create_connection(self.target, timeout=2)

    def _allowed(self, buffer: Pending) -> int:
        """How many bytes of what waits may go on now."""
        return len(buffer)

    def _passed(self, buffer: Pending, number: int) -> None:
        """So many bytes went on."""

    def _release(self) -> None:
        """Time has passed: what was held back may go on."""

    def _idle(self, pending: Pending) -> int:  # noqa: ARG002 - what waits to be written there
        """What an end is watched for that is to be neither read nor written: a selector needs something."""
        return selectors.EVENT_WRITE

    def _drop(self, pair: _Pair) -> None:
        self._pairs.remove(pair)
        self.breaks += 1
        for end in (pair.near, pair.far):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(end)
            end.close()

    def _drop_all(self) -> None:
        for pair in list(self._pairs):
            self._drop(pair)
