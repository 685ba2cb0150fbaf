"""Whether a series of measurements grows: a slope that neither outliers nor the teeth of a saw bend. Pure.

Theil and Sen: the median of the slopes of all pairs. A heap that is collected now and then goes up and down; least
squares follows the tooth at which a run happens to end, the median of all pairs does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST = 8
"""Fewer samples than these say nothing about growth."""

_BLOCKS = 120
"""Samples are put together to so many medians: neighbours are not independent, and pairs grow with the square."""

_Z = 1.96
_S_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth in units an hour.

    Attributes:
        per_hour: the median of all pairs.
        low, high: between these it lies with 95 of 100 (Kendall's rank statistic).
    """

    per_hour: float
    low: float
    high: float


def settled(samples: Sequence[tuple[float, float]], warm_up: float) -> Sequence[tuple[float, float]]:
    """The samples behind the first part of their time, in which caches, pools and allocator arenas fill.

    Args:
        samples: (seconds, value), in the order of time.
        warm_up: share of the time that is left out, 0 up to 1.
    """
    if not samples:
        return samples
    begin, end = samples[0][0], samples[-1][0]
    return [one for one in samples if one[0] >= begin + warm_up * (end - begin)]


def theil_sen(samples: Sequence[tuple[float, float]]) -> Slope | None:
    """The slope of (seconds, value); None for fewer than `LEAST` samples, or where no time passes.

    >>> theil_sen([(3600.0 * hour, 5.0 + 2.0 * hour) for hour in range(10)])
    Slope(per_hour=2.0, low=2.0, high=2.0)
    """
    if len(samples) < LEAST:
        return None
    parts = np.array_split(np.asarray(samples, dtype=float), min(_BLOCKS, len(samples)))
    at, value = (np.array([np.median(part[:, column]) for part in parts]) for column in (0, 1))
    first, second = np.triu_indices(len(at), 1)
    passed = at[second] - at[first]
    if not (passed > 0).any():
        return None
    kept = passed > 0
    slopes = np.sort((value[second] - value[first])[kept] / passed[kept]) * _S_PER_HOUR
    number, blocks = len(slopes), len(at)
    reach = _Z * math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    low = max(0, int((number - reach) / 2))
    high = min(number - 1, math.ceil((number + reach) / 2))
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))
