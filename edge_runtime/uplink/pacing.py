"""How many bundles may be on their way, and how soon the next may follow. Pure.

The window is the least of our own, the broker's Receive Maximum and the server's credit. After a connect the
backlog of many devices would arrive in one wave (mosquitto #1359), so bundles start at one a second and double
with each second in which the server answered, until only the window limits them.
"""

from edge_runtime.clock import NS_PER_S

WINDOW = 20
"""Bundles in flight at most: paho is fastest there, and slower with a larger window."""

_FIRST_RATE = 1.0


class Pacer:
    """Window, credit and ramp of one session.

    Args:
        window: bundles in flight at most, 1 to `WINDOW`.
        ramp: whether bundles start slowly after a connect.
    """

    def __init__(self, window: int = WINDOW, *, ramp: bool = True) -> None:
        self._window = max(1, min(WINDOW, window))
        self._ramp = ramp
        self._receive_maximum = self._window
        self._credit: int | None = None
        self._rate: float | None = None
        self._doubled_ns = 0
        self._answered = False
        self._sent_ns: int | None = None

    def connected(self, receive_maximum: int, now_ns: int) -> None:
        """A session began; credit of an earlier one means nothing any more.

        Args:
            receive_maximum: of the broker's CONNACK, or what the protocol says without one.
            now_ns: monotonic time.
        """
        # One place of the broker's stays free for syncs, outcomes and health.
        self._receive_maximum = max(1, receive_maximum - 1)
        self._credit = None
        self._rate = _FIRST_RATE if self._ramp else None
        self._doubled_ns = now_ns
        self._answered = False
        self._sent_ns = None

    def receipt(self, credit: int) -> None:
        """The server answered, and says how many bundles it wants in flight."""
        self._credit = credit
        self._answered = True

    @property
    def window(self) -> int:
        """Bundles that may be in flight now; 0 until the server has answered in this session."""
        return min(self._window, self._receive_maximum, 0 if self._credit is None else self._credit)

    @property
    def free(self) -> bool:
        """Whether only the window limits bundles, and no ramp does."""
        return self._rate is None

    def ready_ns(self, now_ns: int) -> int:
        """When the ramp lets the next bundle out; now or earlier means at once."""
        self._climb(now_ns)
        if self._rate is None or self._sent_ns is None:
            return now_ns
        return self._sent_ns + int(NS_PER_S / self._rate)

    def sent(self, now_ns: int) -> None:
        """A bundle went out."""
        self._climb(now_ns)
        self._sent_ns = now_ns

    def _climb(self, now_ns: int) -> None:
        if self._rate is None or now_ns - self._doubled_ns < NS_PER_S:
            return
        if self._answered:
            self._rate *= 2.0
            self._answered = False
        self._doubled_ns = now_ns
        if self._rate >= max(1, self.window):
            self._rate = None
