"""When a recording's frame is due on the monotonic clock. Pure."""

from edge_runtime.clock import NS_PER_S

_GIVE_UP_NS = NS_PER_S
"""Decoding that lags by more than this will not catch up: the schedule moves, as a camera would drop."""


class Pacer:
    """Maps a recording's own time to CLOCK_MONOTONIC, at its own pace.

    Args:
        moves: whether the schedule moves when the lag passes a second. As a camera: yes, what was missed is
            gone. Where every frame is wanted: no, a recording that fell behind may catch up.
    """

    def __init__(self, *, moves: bool) -> None:
        self._moves = moves
        self._epoch: int | None = None
        self._zero_ns = 0

    def due_ns(self, epoch: int, media_ns: int, now_ns: int) -> int:
        """CLOCK_MONOTONIC at which the frame is due; in the past where decoding lags."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._zero_ns = now_ns - media_ns
        due_ns = self._zero_ns + media_ns
        if self._moves and now_ns - due_ns > _GIVE_UP_NS:
            self._zero_ns = now_ns - media_ns
            due_ns = now_ns
        return due_ns
