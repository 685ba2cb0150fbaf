"""The rate that a device holds, beside the rate that it reaches: deadlines are promised on the first.

A device that starts cool is fast for minutes and then is not: 40 tokens a second became 22.6 after eight runs. A
deadline that was measured on the first minute is missed for the rest of the day.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SETTLED_WITHIN = 0.05
"""The last third of the windows must not differ by more than this share, or the device has not settled yet."""

_LEAST_WINDOWS = 6


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """Rates of one long run.

    Attributes:
        peak_hz: of the best window.
        sustained_hz: median of the last third of the windows; the lowest window where it has not settled.
        settled: whether the last third is level; otherwise a longer run would find another rate.
        windows: rate of each window, in order.
    """

    peak_hz: float
    sustained_hz: float
    settled: bool
    windows: tuple[float, ...]

    @property
    def share(self) -> float:
        """Sustained over peak; 1 is a device that does not throttle."""
        return self.sustained_hz / self.peak_hz if self.peak_hz > 0 else 0.0


def sustained_rate(windows: Sequence[float]) -> SustainedRate:
    """From the rates of equal windows, in order.

    Args:
        windows: units of work a second, each at least 0; at least one.
    """
    if not windows or min(windows) < 0:
        raise ValueError("a rate is measured over one window or more, none of them negative")
    tail = list(windows[-max(1, len(windows) // 3) :])
    spread = max(tail) - min(tail)
    settled = len(windows) >= _LEAST_WINDOWS and spread <= SETTLED_WITHIN * max(tail)
    held = statistics.median(tail) if settled else min(windows)
    return SustainedRate(max(windows), held, settled, tuple(windows))


def shortest_deadline_s(sustained_hz: float, *, rest_s: float = 0.0) -> float:
    """The shortest deadline from capture to event that a device can promise, in seconds.

    The newest frame waits at most for the one that is being looked at, then it is looked at itself; `rest_s` is
    everything that is not the model.
    """
    if sustained_hz <= 0:
        raise ValueError("a device that does nothing promises nothing")
    return 2 / sustained_hz + rest_s
