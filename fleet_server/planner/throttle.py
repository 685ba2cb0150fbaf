"""How much of its peak a machine keeps when it is warm, and what to plan with."""

from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from edge_runtime.errors import ConfigError


class Cooling(str, Enum):
    """How heat leaves a machine."""

    PASSIVE = "passive"
    ACTIVE = "active"


class Admission(NamedTuple):
    """What may be planned with.

    Attributes:
        rate: tokens a second.
        lost: share of the peak that is not planned with.
        how: why it is this much.
    """

    rate: Fraction
    lost: Fraction
    how: str


def admission(
    peak: Fraction, sustained: Fraction | None, cooling: Cooling, passive_share: Fraction
) -> Admission:
    """The rate to plan with: what was measured warm, or without that a share of the peak.

    Args:
        peak: tokens a second that were measured cold.
        sustained: that were measured after many runs; None where nobody did.
        cooling: of the machine.
        passive_share: of the peak, for passive cooling that nobody measured warm.

    Raises:
        ConfigError: the peak is not above 0, or the sustained rate above it.
    """
    if peak <= 0:
        raise ConfigError("the peak has to be above 0")
    if sustained is not None:
        if not 0 < sustained <= peak:
            raise ConfigError("a sustained rate is above 0 and at most the peak")
        return Admission(sustained, 1 - sustained / peak, "measured warm")
    if cooling is Cooling.PASSIVE:
        return Admission(peak * passive_share, 1 - passive_share, "passive cooling, not measured warm")
    return Admission(peak, Fraction(0), "active cooling, not measured warm: measure it before you rely on it")
