"""Is a live stream's packet fresh, or has it been waiting for us? Pure; decided by whether the read blocked.

A library that opens a stream buffers packets while it looks at them: measured on an RTSP camera at 10 fps,
the first 28 frames came out within 55 ms and were up to 2.9 s old, each of them "just arrived". And where
decoding is slower than the camera, seconds of video wait in the socket without a sign: boxes 40 s late after
a minute (open-edge-platform/dlstreamer #64). A read that had to wait proves that nothing was waiting for us;
until one does, the stream's own stamps tell how far behind we are.

Stamps alone would not do: cameras exist whose stamps run slow against the clock, and each of their frames
would in time be called old.
"""

from dataclasses import dataclass

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.sources.timeline import DISCONTINUITY_NS

BLOCKED_NS = 8 * NS_PER_MS
"""A read that took this long waited for the camera. One from a buffer takes 0.05 to 0.3 ms, and up to the
interpreter's switch interval of 5 ms more where other threads hold its lock."""

PREROLL_LIMIT_NS = 2 * NS_PER_S
"""Frames are not withheld for longer than this after opening, even where decoding never catches up."""

DRAIN_LIMIT_NS = NS_PER_S // 2
"""Skipping what waited goes at the speed of memory; after this long there is nothing left to skip."""


def sensor_ns(pts_ns: int | None, arrival_ns: int) -> int | None:
    """When a V4L2 driver says that it took the picture, where its stamp is of CLOCK_MONOTONIC; else None."""
    if pts_ns is None or not 0 <= arrival_ns - pts_ns <= DISCONTINUITY_NS:
        return None
    return pts_ns


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is known about one packet.

    Attributes:
        capture_ns: CLOCK_MONOTONIC when it was at our door, not when we came to fetch it.
        preroll: it was buffered while the stream was opened, its age is unknown: decode, do not deliver.
        behind: packets have been waiting for longer than a frame may be old: skip this one undecoded.
    """

    capture_ns: int
    preroll: bool = False
    behind: bool = False


class LiveEdge:
    """Follows one connection; make a new one for each.

    Args:
        max_age_ns: how old a frame may be.
        opened_ns: CLOCK_MONOTONIC when opening had finished.
    """

    def __init__(self, max_age_ns: int, opened_ns: int) -> None:
        self._max_age_ns = max_age_ns
        self._opened_ns = opened_ns
        self._preroll = True
        self._draining_since_ns: int | None = None
        self._edge_ns = opened_ns  # arrival of the last packet known to be fresh
        self._offset_ns: int | None = None  # least distance from a stamp to its arrival since then

    def arrived(self, arrival_ns: int, waited_ns: int, pts_ns: int | None) -> Arrival:
        """Judge one packet.

        Args:
            arrival_ns: CLOCK_MONOTONIC when the read returned.
            waited_ns: how long the read took.
            pts_ns: the packet's stamp, where the stream's stamps can be trusted.
        """
        draining = self._draining_since_ns is not None
        if waited_ns >= BLOCKED_NS or self._waited_enough(arrival_ns):
            return self._fresh(arrival_ns, pts_ns)
        if self._preroll or draining:
            return Arrival(arrival_ns, preroll=self._preroll, behind=draining)
        late_ns = self._late(arrival_ns, pts_ns)
        # Without stamps, the time since a packet was known to be fresh is only a bound on its age: such a
        # packet passes for fresh until it may be too old.
        bound_ns = arrival_ns - self._edge_ns if late_ns is None else late_ns
        if bound_ns > self._max_age_ns:
            self._draining_since_ns = arrival_ns
            return Arrival(arrival_ns, behind=True)
        return Arrival(arrival_ns - (late_ns or 0))

    def _waited_enough(self, arrival_ns: int) -> bool:
        """Whether withholding or skipping has reached its limit."""
        if self._preroll:
            return arrival_ns - self._opened_ns > PREROLL_LIMIT_NS
        since_ns = self._draining_since_ns
        return since_ns is not None and arrival_ns - since_ns > DRAIN_LIMIT_NS

    def _fresh(self, arrival_ns: int, pts_ns: int | None) -> Arrival:
        self._preroll = False
        self._draining_since_ns = None
        self._edge_ns = arrival_ns
        self._offset_ns = None if pts_ns is None else arrival_ns - pts_ns
        return Arrival(arrival_ns)

    def _late(self, arrival_ns: int, pts_ns: int | None) -> int | None:
        """How long the packet waited, by its stamp; None where stamps do not tell."""
        if pts_ns is None:
            return None
        offset_ns = arrival_ns - pts_ns
        if self._offset_ns is None or abs(offset_ns - self._offset_ns) > DISCONTINUITY_NS:
            # The first stamp, or another timeline: nothing to compare with.
            self._offset_ns = offset_ns
            self._edge_ns = arrival_ns
        if offset_ns <= self._offset_ns:
            self._offset_ns = offset_ns
            self._edge_ns = arrival_ns
        return offset_ns - self._offset_ns
