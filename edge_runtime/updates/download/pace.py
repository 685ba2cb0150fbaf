"""Not too fast and not too slow: how long to rest between two pieces, and when a connection is given up. Pure."""

from edge_runtime.clock import NS_PER_S


class RateLimit:
    """Spreads bytes over time; what was not used is kept for half a second, and no longer.

    Args:
        bytes_s: a second; None is no limit.
    """

    def __init__(self, bytes_s: int | None) -> None:
        self._bytes_s = bytes_s
        self._free_ns: int | None = None

    def rest_s(self, count: int, now_ns: int) -> float:
        """Seconds to rest before the next piece, after `count` bytes came at `now_ns`."""
        if self._bytes_s is None:
            return 0.0
        cost = count * NS_PER_S // self._bytes_s
        since = now_ns - NS_PER_S // 2
        self._free_ns = max(since if self._free_ns is None else self._free_ns, since) + cost
        return max(0, self._free_ns - now_ns) / NS_PER_S


class MinimumRate:
    """Whether bytes come too slowly: a server that drips a byte a second never lets a read time out.

    Args:
        bytes_s: the least; halved where a limit of ours is below twice that, so that we never blame a server for
            our own slowness.
        window_s: over which it is measured.
        limit_bytes_s: our own limit.
    """

    def __init__(self, bytes_s: int, window_s: float, limit_bytes_s: int | None) -> None:
        least = bytes_s if limit_bytes_s is None else min(bytes_s, limit_bytes_s // 2)
        self._needed = least * window_s
        self._window_ns = round(window_s * NS_PER_S)
        self._since_ns = 0
        self._from = 0

    def begin(self, received: int, now_ns: int) -> None:
        """A body begins, with `received` bytes on the counter."""
        self._since_ns, self._from = now_ns, received

    def is_too_slow(self, received: int, now_ns: int) -> bool:
        """Whether the window that ends now had too few bytes; False while it has not ended."""
        if now_ns - self._since_ns < self._window_ns:
            return False
        slow = received - self._from < self._needed
        self.begin(received, now_ns)
        return slow
