"""A source's own time: epochs, sequence numbers and media time from presentation stamps, as pure arithmetic.

Streams reset their stamps to 0, jump back, leave them out or wrap them; code that trusted them has thrown
frames away as old for ever, or torn the source down every few seconds (insight-platform/Savant #182, #681,
AlexxIT/go2rtc PR #1943). Here a reset begins a new epoch and order is (epoch, sequence).
"""

from dataclasses import dataclass

from edge_runtime.clock import NS_PER_MS, NS_PER_S

WRAPS_NS = (
    (1 << 33) * NS_PER_S // 90_000,  # MPEG-TS stamps: 33 bits at 90 kHz, 26.5 h (ISO/IEC 13818-1)
    (1 << 32) * NS_PER_S // 90_000,  # RTP video stamps: 32 bits at 90 kHz, 13.3 h (RFC 3550)
)

JITTER_NS = 100 * NS_PER_MS
"""Stamps that step back by at most this are jitter and stand still; more is a reset."""

DISCONTINUITY_NS = 10 * NS_PER_S
"""A live stream whose stamps leap ahead of the clock by more than this has begun another timeline."""

_DEFAULT_INTERVAL_NS = 40 * NS_PER_MS  # a recording without stamps and without a rate: 25 a second


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where a frame stands: see `Frame`."""

    epoch: int
    sequence: int
    media_ns: int


class Timeline:
    """Stamps decoded frames in the order in which they were decoded.

    Args:
        live: missing stamps are measured on arrival; without it they are `interval_ns` apart, because a
            recording arrives as fast as it decodes.
        interval_ns: nominal distance of a recording's frames, where known.
    """

    def __init__(self, *, live: bool, interval_ns: int | None = None) -> None:
        self._live = live
        self._interval_ns = interval_ns or _DEFAULT_INTERVAL_NS
        self._epoch = 0
        self._begun = False  # whether the epoch holds a frame
        self._sequence = 0
        self._media_ns = 0
        self._arrival_ns = 0
        self._size: tuple[int, int] | None = None
        self._pts_ns: int | None = None  # the last one, unwrapped
        self._origin_ns: int | None = None  # the stamp at which media time is 0
        self._wrapped_ns = 0

    @property
    def epoch(self) -> int:
        """The epoch of the last frame; 0 before the first."""
        return self._epoch

    def begin(self, interval_ns: int | None = None) -> None:
        """Begin a new epoch with the next frame: the source was reopened."""
        if self._begun:
            self._epoch += 1
        if interval_ns is not None:
            self._interval_ns = interval_ns
        self._begun = False
        self._sequence = 0
        self._media_ns = 0
        self._size = None
        self._pts_ns = None
        self._origin_ns = None
        self._wrapped_ns = 0

    def stamp(self, pts_ns: int | None, arrival_ns: int, size: tuple[int, int]) -> Stamp:
        """Where the next decoded frame stands.

        Args:
            pts_ns: presentation stamp in nanoseconds on whatever origin the stream has, or None.
            arrival_ns: CLOCK_MONOTONIC when it arrived.
            size: (width, height) in pixels; a change begins a new epoch.
        """
        if self._size is not None and size != self._size:
            self.begin()
        pts_ns = self._unwrapped(pts_ns)
        if pts_ns is not None and self._is_reset(pts_ns, arrival_ns):
            self.begin()
        expected_ns = self._expected(arrival_ns)
        if pts_ns is None:
            media_ns = expected_ns
        else:
            if self._origin_ns is None:
                self._origin_ns = pts_ns - expected_ns
            media_ns = pts_ns - self._origin_ns
        self._media_ns = max(media_ns, self._media_ns)
        stamp = Stamp(self._epoch, self._sequence, self._media_ns)
        self._begun = True
        self._sequence += 1
        self._arrival_ns = arrival_ns
        self._size = size
        self._pts_ns = pts_ns if pts_ns is not None else self._pts_ns
        return stamp

    def _expected(self, arrival_ns: int) -> int:
        """Media time of a frame that carries no stamp."""
        if not self._begun:
            return 0
        return self._media_ns + (max(arrival_ns - self._arrival_ns, 0) if self._live else self._interval_ns)

    def _unwrapped(self, pts_ns: int | None) -> int | None:
        """`pts_ns` with the counter's wraps added, so that a wrap is not a reset."""
        if pts_ns is None:
            return None
        pts_ns += self._wrapped_ns
        if self._pts_ns is not None and pts_ns < self._pts_ns:
            for wrap_ns in WRAPS_NS:
                if -JITTER_NS <= pts_ns + wrap_ns - self._pts_ns <= DISCONTINUITY_NS:
                    self._wrapped_ns += wrap_ns
                    return pts_ns + wrap_ns
        return pts_ns

    def _is_reset(self, pts_ns: int, arrival_ns: int) -> bool:
        if self._pts_ns is None:
            return False
        step_ns = pts_ns - self._pts_ns
        if step_ns < -JITTER_NS:
            return True
        return self._live and step_ns - (arrival_ns - self._arrival_ns) > DISCONTINUITY_NS
