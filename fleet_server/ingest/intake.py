"""The queue between MQTT and the transactions: bounded, and one thread on each side.

What is in it was not acknowledged. When it is full, a message is left out and not acknowledged either: the device
sends it again for want of a receipt. The session connects anew once there is room (`Session.redeliver`), because a
message without an acknowledgement keeps its place in the broker's window as long as the connection lasts.
"""

from queue import Empty, SimpleQueue

from fleet_server.ingest.parcels import Arrival


class Intake:
    """A bounded queue of arrivals.

    Args:
        max_messages, max_bytes: what was put in and is not yet done never exceeds these, but for one message.

    Attributes:
        left_out: messages that found it full.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._queue: SimpleQueue[Arrival] = SimpleQueue()
        # each counter has one writer: the network's thread counts in, the worker's counts out
        self._in, self._in_bytes, self._out, self._out_bytes = 0, 0, 0, 0
        self._is_closed = False
        self.left_out = 0

    @property
    def waiting(self) -> int:
        """Messages that are not done."""
        return self._in - self._out

    @property
    def waiting_bytes(self) -> int:
        """Bytes of them."""
        return self._in_bytes - self._out_bytes

    @property
    def fill(self) -> float:
        """How full it is, 0 to 1, by messages or bytes, whichever is more."""
        return max(self.waiting / self._max_messages, self.waiting_bytes / self._max_bytes)

    def put(self, arrival: Arrival) -> bool:
        """Take a message in; False when it is left out."""
        if self._is_closed or self.fill >= 1:
            self.left_out += 1
            return False
        self._in += 1
        self._in_bytes += len(arrival.payload)
        self._queue.put(arrival)
        return True

    def get(self, timeout_s: float) -> Arrival | None:
        """The oldest message; None when there is none within `timeout_s`."""
        try:
            return self._queue.get(timeout=timeout_s) if timeout_s > 0 else self._queue.get_nowait()
        except Empty:
            return None

    def close(self) -> None:
        """Take nothing more in; what is in it can still be got."""
        self._is_closed = True

    def done(self, arrival: Arrival) -> None:
        """Make room: a message was committed."""
        self._out += 1
        self._out_bytes += len(arrival.payload)
