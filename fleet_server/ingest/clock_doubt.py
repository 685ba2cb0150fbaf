"""Whether the wall clock may be believed when things are deleted by it.

A clock that is fifty years ahead for ten minutes would make every event too old. So one that leapt is not believed
until it has gone on from there for hours; to forget some hours later does no harm.
"""

from dataclasses import dataclass

_HOUR_MS = 3600 * 1000
LEAP_MS = 3 * 24 * _HOUR_MS
"""A step beyond this, to either side, is doubted."""
AGREE_MS = 6 * _HOUR_MS
"""For so long a clock that leapt must go on before it is believed."""


@dataclass(slots=True)
class ClockDoubt:
    """What is known of the wall clock, against one that nobody sets.

    Attributes:
        believed_ms: wall clock less the steady one when it was last believed; None before the first look.
        doubted_ms: the same of a clock that leapt; None while there is no doubt.
        since_ms: of the steady clock, when that was first seen.
    """

    believed_ms: int | None = None
    doubted_ms: int | None = None
    since_ms: int = 0

    def believes(self, wall_ms: int, steady_ms: int, *, first_seems_right: bool) -> bool:
        """Look at both clocks.

        Args:
            wall_ms: milliseconds since 1970.
            steady_ms: milliseconds of a clock that nobody sets, and that goes on while the machine sleeps.
            first_seems_right: whether the first look ever has no reason for doubt.
        """
        ahead_ms = wall_ms - steady_ms
        if self.believed_ms is None and self.doubted_ms is None and first_seems_right:
            self.believed_ms = ahead_ms
        if _agree(self.believed_ms, ahead_ms):
            self.believed_ms, self.doubted_ms = ahead_ms, None
            return True
        if not _agree(self.doubted_ms, ahead_ms):
            self.doubted_ms, self.since_ms = ahead_ms, steady_ms
            return False
        if steady_ms - self.since_ms < AGREE_MS:
            return False
        self.believed_ms, self.doubted_ms = ahead_ms, None
        return True


def _agree(one_ms: int | None, other_ms: int) -> bool:
    return one_ms is not None and abs(one_ms - other_ms) <= LEAP_MS
