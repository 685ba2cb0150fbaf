"""How much a number of devices shows: the share of bad ones that it cannot exclude.

One-sided Clopper-Pearson: the share p at which seeing so few bad ones, or fewer, has a chance of 5 %. Without a bad
one it is 1 - 0.05^(1/n), which the rule of three calls 3/n.
"""

import functools
import math

CONFIDENCE = 0.95
_STEPS = 60
_TINY = 1e-300


@functools.lru_cache(maxsize=1024)
def upper_bound(judged: int, bad: int) -> float:
    """The true share of bad devices is below this with 95 % confidence; 1 where nothing was judged.

    Args:
        judged: devices with a verdict.
        bad: those of them that are bad, 0 to `judged`.
    """
    if judged <= 0 or bad >= judged:
        return 1.0
    if bad == 0:
        return float(1 - (1 - CONFIDENCE) ** (1 / judged))
    low, high = bad / judged, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _incomplete_beta(bad + 1, judged - bad, middle) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), regularised: the chance that more than `a - 1` of `a + b - 1` devices are bad at a share x."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz (Numerical Recipes, 6.4)."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _away(1 + even * d), _away(1 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _away(1 + odd * d), _away(1 + odd / c)
        value *= d * c
        if abs(d * c - 1) < 1e-13:
            break
    return value


def _away(value: float) -> float:
    """Away from zero, by which the fraction divides."""
    return value if abs(value) > _TINY else _TINY
