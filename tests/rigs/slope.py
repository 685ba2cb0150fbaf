"""Whether a series of measurements grows."""

from collections.abc import Sequence

import numpy as np


def slope_per_minute(samples: Sequence[tuple[float, float]], settle: float) -> tuple[float, float]:
    """Least-squares slope of (seconds, value) in units a minute, and its standard error.

    Args:
        samples: in the order of time.
        settle: fraction left out at the beginning: caches and allocator arenas are still filling.
    """
    kept = np.array(samples[int(len(samples) * settle) :])
    x, y = kept[:, 0] / 60, kept[:, 1]
    centred = x - x.mean()
    slope = float((centred * (y - y.mean())).sum() / (centred**2).sum())
    residual = y - y.mean() - slope * centred
    return slope, float(np.sqrt((residual**2).sum() / (len(x) - 2) / (centred**2).sum()))
