"""Publishing within what the broker takes: never offline, never more unacknowledged than its Receive Maximum."""

from edge_runtime.clock import Clock
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.delivery import OVERHEAD_BYTES
from edge_runtime.uplink.ports import Publisher

_MOST = 64
"""More publications without a PUBACK are never needed: the window is 20 bundles."""


class Post:
    """The present session, for whoever publishes.

    Args:
        device: id in the topics.
        budget: what is not an event is counted there, whatever is left.
        clock: monotonic time.

    Attributes:
        refused: publications that the broker acknowledged with a failure.
    """

    def __init__(self, device: str, budget: ByteBudget, clock: Clock) -> None:
        self._device, self._budget, self._clock = device, budget, clock
        self._session: Publisher | None = None
        self._receive_maximum = 1
        self._unacknowledged: dict[int, int] = {}  # when each was published, the oldest first
        self.refused = 0

    def connected(self, session: Publisher, receive_maximum: int) -> None:
        """A session began: nothing of an earlier one counts any more."""
        self._session = session
        self._receive_maximum = max(1, min(_MOST, receive_maximum))
        self._unacknowledged.clear()

    def disconnected(self) -> None:
        """The session ended."""
        self._session = None
        self._unacknowledged.clear()

    @property
    def room(self) -> int:
        """Publications that the broker takes now."""
        return 0 if self._session is None else self._receive_maximum - len(self._unacknowledged)

    @property
    def has_room_for_events(self) -> bool:
        """Whether an event may go: the last place is for syncs, outcomes and health, where there is another."""
        return self.room >= min(2, self._receive_maximum)

    @property
    def oldest_ns(self) -> int | None:
        """When the oldest publication without a PUBACK was made; None without any."""
        return next(iter(self._unacknowledged.values()), None)

    @property
    def idle(self) -> bool:
        """Whether everything was acknowledged."""
        return not self._unacknowledged

    def publish(
        self, channel: Channel, payload: bytes, *, retained: bool = False, expiry_s: int | None = None
    ) -> int | None:
        """Publish, at once or not at all.

        Returns:
            The publication's id, or None where there is no room or no connection.
        """
        if self._session is None or self.room < 1:
            return None
        topic = str(Topic(self._device, channel))
        mid = self._session.publish(topic, payload, retain=retained, expiry_s=expiry_s)
        if mid is not None:
            self._unacknowledged[mid] = self._clock.monotonic_ns()
            if not channel.is_events:
                self._budget.note(len(payload) + OVERHEAD_BYTES)
        return mid

    def acknowledged(self, mid: int, *, failed: bool) -> None:
        """The broker's PUBACK."""
        self._unacknowledged.pop(mid, None)
        self.refused += failed
