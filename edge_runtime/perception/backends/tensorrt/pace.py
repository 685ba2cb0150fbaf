"""How long the device's thread may look out for new jobs before it has to wait for the run that is under way.

It sleeps in a call of CUDA while it waits, and a job that comes meanwhile would lie until the run ends. So it waits
for jobs first, for less than any recent run took: an answer is never later for it than the shortest of them.

What it learns from a run contains that wait where the run ended within it, or computes only while somebody waits.
So some runs are waited for at once, and the others cannot make the wait longer than they show.
"""

from collections import deque
from typing import Final

_RECENT: Final = 16
_FEWEST: Final = 8
"""Runs that are waited for at once before anything is taken for usual: the first load kernels and raise clocks."""

_AT_ONCE: Final = 8
"""Each eighth run is waited for at once: two of the recent ones always tell how long a run takes without the wait.
Without them the wait would grow by itself, up to four times the run on a device that computes when waited for."""

_SHARE: Final = 0.8
"""Of the shortest recent run. Where runs become shorter than that, it follows by a fifth with each run."""


class Pace:
    """Learns from runs how long they take."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._last_end = float("-inf")
        self._runs = 0

    def ended(self, begun: float, now: float) -> None:
        """A run that `begun` has ended `now`, both in seconds; runs end in the order in which they began."""
        self._recent.append(now - max(begun, self._last_end))
        self._last_end = now
        self._runs += 1

    def look_out_until(self, begun: float) -> float:
        """Until when jobs are waited for while the run that `begun` is the oldest on the device."""
        if self._runs < _FEWEST or self._runs % _AT_ONCE == _AT_ONCE - 1:
            return begun
        return max(begun, self._last_end) + _SHARE * min(self._recent)
