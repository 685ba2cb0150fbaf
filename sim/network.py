"""A network between two programs on loopback that is worse than a cable: late, narrow, lossy, or somebody else's.

It carries TCP, so what a lost or reordered packet does shows as it does to a program: everything behind it waits.
Bytes never arrive in another order. What is below TCP (fragments, ECN, a NAT's table) is not here; that takes
network namespaces and `tc`, or a bench.
"""

import contextlib
import random
import selectors
import socket
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from sim.cable import Cable, Pending

RETRANSMIT_S = 0.2
"""What a lost packet costs: Linux's shortest time-out for it."""

PACKET_BYTES = 1448
_PORTAL = (
    b"HTTP/1.1 302 Found\r\nLocation: http://login.invalid/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Impairment:
    """How bad the network is; the same in both directions.

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


class Network(Cable):
    """A cable with impairments.

    Args:
        target: host and port of new connections.
        seed: of losses and jitter.
        clock: by which it is late.
        listen: as a cable's.
    """

    def __init__(
        self,
        target: tuple[str, int],
        seed: int = 1,
        clock: Clock | None = None,
        listen: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._impairment, self._clock = Impairment(), clock or SystemClock()
        self._rng = random.Random(seed)  # noqa: S311 - luck, not a secret
        self._tokens, self._filled_ns = 0.0, self._clock.monotonic_ns()
        super().__init__(target, listen)

    def become(self, impairment: Impairment) -> None:
        """From now on it is like this; a portal also breaks what is open, as a new network does."""
        with self._lock:
            self._impairment = impairment
            self._tokens, self._filled_ns = 0.0, self._clock.monotonic_ns()
            if impairment.portal:
                self._drop_all()

    # ---- in the cable's thread

    def _reach(self, near: socket.socket) -> socket.socket:
        if not self._impairment.portal:
            return super()._reach(near)
        with contextlib.suppress(OSError):
            near.sendall(_PORTAL)
        raise OSError("a portal")

    def _allowed(self, buffer: Pending) -> int:
        impairment, now_ns = self._impairment, self._clock.monotonic_ns()
        held = buffer.held
        number = len(buffer) - sum(size for _, size in held)
        if number:
            due_ns = now_ns + round(self._late_s(number) * NS_PER_S)
            held.append((max(due_ns, held[-1][0] if held else 0), number))
        due = sum(size for due_ns, size in held if due_ns <= now_ns)
        if impairment.bytes_per_s is None:
            return due
        self._tokens = min(
            impairment.bytes_per_s,
            self._tokens + impairment.bytes_per_s * (now_ns - self._filled_ns) / NS_PER_S,
        )
        self._filled_ns = now_ns
        return min(due, int(self._tokens))

    def _late_s(self, number: int) -> float:
        impairment = self._impairment
        late = impairment.delay_s + self._rng.uniform(0.0, impairment.jitter_s)
        if impairment.loss:
            packets = -(-number // PACKET_BYTES)
            late += RETRANSMIT_S * sum(self._rng.random() < impairment.loss for _ in range(packets))
        return late

    def _passed(self, buffer: Pending, number: int) -> None:
        if self._impairment.bytes_per_s is not None:
            self._tokens -= number
        while number and buffer.held:
            due_ns, size = buffer.held.popleft()
            taken = min(size, number)
            number -= taken
            if taken < size:
                buffer.held.appendleft((due_ns, size - taken))

    def _release(self) -> None:
        for pair in list(self._pairs):
            for buffer, sink, to_far in ((pair.up, pair.far, True), (pair.down, pair.near, False)):
                if not buffer:
                    continue
                try:
                    self._flush(pair, sink, to_far=to_far)
                except OSError:
                    self._drop(pair)
                    break

    def _idle(self, pending: Pending) -> int:
        # an end whose bytes are held back must not wake the selector again and again: it would be writable at once
        return selectors.EVENT_READ if pending else selectors.EVENT_WRITE
