"""A network between two programs on loopback that is worse than a cable: late, narrow, lossy, or somebody else's.

It carries TCP, so what a lost or reordered packet does shows as it does to a program: everything behind it waits.
Bytes never arrive in another order. What is below TCP (fragments, ECN, a NAT's table) is not here; that takes
network namespaces and `tc`, or a bench.
"""

import contextlib
import random
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass, field

from edge_runtime.clock import NS_PER_S
from sim.cable import Cable

RETRANSMIT_S = 0.2
"""What a lost packet costs: Linux's shortest time-out for it."""

PACKET_BYTES = 1448
_PORTAL = (
    b"HTTP/1.1 302 Found\r\nLocation: http://login.invalid/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Weather:
    """How the network is; the same in both directions.

    Attributes:
        delay_s: one way.
        jitter_s: up to so much more, evenly; whatever comes behind waits, as behind a packet that was overtaken.
        loss: share of packets that have to be sent again.
        bytes_per_s: of all connections together; None is as fast as the machine.
        portal: something answers in the target's place and asks for a login, as in a hotel.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float | None = None
    portal: bool = False


@dataclass(slots=True)
class _Held:
    """What waits in one direction of one connection: (due, bytes), in order."""

    parts: deque[tuple[int, int]] = field(default_factory=deque)
    total: int = 0


class Network(Cable):
    """A cable with weather.

    Args:
        target: host and port of new connections.
        seed: of losses and jitter.
    """

    def __init__(self, target: tuple[str, int], seed: int = 1) -> None:
        self._weather = Weather()
        self._rng = random.Random(seed)  # noqa: S311 - weather, not a secret
        self._held: dict[int, _Held] = {}
        self._tokens, self._filled_ns = 0.0, time.monotonic_ns()
        super().__init__(target)

    def become(self, weather: Weather) -> None:
        """From now on it is like this; a portal also breaks what is open, as a new network does."""
        with self._lock:
            self._weather = weather
            self._tokens, self._filled_ns = 0.0, time.monotonic_ns()
            if weather.portal:
                self._drop_all()

    # ---- in the cable's thread

    def _reach(self, near: socket.socket) -> socket.socket:
        if not self._weather.portal:
            return super()._reach(near)
        with contextlib.suppress(OSError):
            near.sendall(_PORTAL)
        raise OSError("a portal")

    def _allowed(self, buffer: bytearray) -> int:
        weather, now_ns = self._weather, time.monotonic_ns()
        held = self._held.setdefault(id(buffer), _Held())
        if held.total > len(buffer):  # another connection's buffer had this place in memory
            held.parts.clear()
            held.total = 0
        if held.total < len(buffer):
            number = len(buffer) - held.total
            due_ns = now_ns + round(self._late_s(number) * NS_PER_S)
            held.parts.append((max(due_ns, held.parts[-1][0] if held.parts else 0), number))
            held.total += number
        due = sum(number for due_ns, number in held.parts if due_ns <= now_ns)
        if weather.bytes_per_s is None:
            return due
        self._tokens = min(
            weather.bytes_per_s, self._tokens + weather.bytes_per_s * (now_ns - self._filled_ns) / NS_PER_S
        )
        self._filled_ns = now_ns
        return min(due, int(self._tokens))

    def _late_s(self, number: int) -> float:
        weather = self._weather
        late = weather.delay_s + self._rng.uniform(0.0, weather.jitter_s)
        if weather.loss:
            packets = -(-number // PACKET_BYTES)
            late += RETRANSMIT_S * sum(self._rng.random() < weather.loss for _ in range(packets))
        return late

    def _passed(self, buffer: bytearray, number: int) -> None:
        if self._weather.bytes_per_s is not None:
            self._tokens -= number
        held = self._held.get(id(buffer))
        while held is not None and number and held.parts:
            due_ns, size = held.parts.popleft()
            taken = min(size, number)
            number, held.total = number - taken, held.total - taken
            if taken < size:
                held.parts.appendleft((due_ns, size - taken))

    def _release(self) -> None:
        for pair in list(self._pairs):
            for buffer, sink, to_far in ((pair.up, pair.far, True), (pair.down, pair.near, False)):
                if not buffer:
                    self._held.pop(id(buffer), None)
                    continue
                try:
                    self._flush(pair, sink, to_far=to_far)
                except OSError:
                    self._drop(pair)
                    break

    def _idle(self, pending: bytearray) -> int:
        # an end whose bytes are held back must not wake the selector again and again: it would be writable at once
        return selectors.EVENT_READ if pending else selectors.EVENT_WRITE
