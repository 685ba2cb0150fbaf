"""What work costs: use at somebody else's prices, hardware of one's own, and from when which of them is less.

Accounting, not advice: a break-even says nothing about whether the other way is good enough, so it is refused where
it is known that it is not.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from edge_runtime.errors import ConfigError

FIELDS: Final = (
    "input_uncached",
    "cache_write",
    "cache_read",
    "output",
    "reasoning",
    "tools",
    "search",
    "code",
    "network",
    "retention",
)
"""What a hosted service bills apart. `reasoning` is what is billed beside the output, not what is part of it."""

PER_DAY_S: Final = 86_400


class BreakEven(NamedTuple):
    """From how many requests on one's own hardware costs less.

    Attributes:
        requests: rounded up to a whole one; None where there is no such number.
        why: the sentence where there is none.
        ratio: hosted price by own variable cost; None where that is 0.
    """

    requests: int | None
    why: str
    ratio: Fraction | None


def break_even(
    fixed: Fraction, hosted: Fraction, own: Fraction, *, quality: bool, latency: bool, reliability: bool
) -> BreakEven:
    """F / (C - V), only where local work meets what is asked of it.

    Args:
        fixed: usd, over the time that is looked at.
        hosted: usd for one request.
        own: variable usd for one request on one's own hardware.
        quality: whether local work was shown to meet what is asked of its quality.
        latency: the same of its latency.
        reliability: the same of its reliability.

    Raises:
        ConfigError: one of them is not met, or a number is below 0.
    """
    if min(fixed, hosted, own) < 0:
        raise ConfigError("a cost is not below 0")
    missed = [
        name
        for name, met in (("quality", quality), ("latency", latency), ("reliability", reliability))
        if not met
    ]
    if missed:
        raise ConfigError(
            f"local work does not meet what is asked of its {', '.join(missed)}: there is nothing to compare"
        )
    ratio = hosted / own if own else None
    if own >= hosted:
        return BreakEven(None, "no break-even: a request costs at least as much on your own hardware", ratio)
    return BreakEven(-(-fixed // (hosted - own)), "", ratio)


class Hardware(NamedTuple):
    """What hardware of one's own costs in a time, in usd; owned is not free.

    Attributes:
        amortisation, power, maintenance, network, storage, operations: fixed, whether it works or not.
        variable: of one task besides.
        capacity: tasks that it could do in that time.
        utilisation: share of these that it does, above 0 and at most 1.
    """

    amortisation: Fraction
    power: Fraction
    maintenance: Fraction
    network: Fraction
    storage: Fraction
    operations: Fraction
    variable: Fraction
    capacity: Fraction
    utilisation: Fraction


def cost_of_a_task(hardware: Hardware) -> tuple[Fraction, Fraction]:
    """Fixed and variable usd of one task.

    Raises:
        ConfigError: it does nothing, or more than it can.
    """
    if not 0 < hardware.utilisation <= 1 or hardware.capacity <= 0:
        raise ConfigError("utilisation is above 0 and at most 1, and capacity above 0")
    fixed = sum(hardware[:6], Fraction(0))
    return fixed / (hardware.capacity * hardware.utilisation), hardware.variable


class Utilisation(NamedTuple):
    """From which use on rented hardware costs less than own for a token.

    Attributes:
        break_even: share of its time; None where it never does.
        implied: tokens a second at full load.
    """

    break_even: Fraction | None
    implied: Fraction


def utilisation(edge: Fraction, full_load: Fraction, rent: Fraction) -> Utilisation:
    """A rented machine that is used for u of its time costs full_load / u for a token.

    Args:
        edge: usd for a token on hardware of one's own.
        full_load: usd for a token on the rented machine at full load.
        rent: of it, usd a second.

    Raises:
        ConfigError: a price is not above 0.
    """
    if min(edge, full_load, rent) <= 0:
        raise ConfigError("prices have to be above 0")
    share = full_load / edge
    return Utilisation(share if share <= 1 else None, rent / full_load)


class Total(NamedTuple):
    """What use costs.

    Attributes:
        usd: None where a price is missing: unpriced is not free.
        parts: usd of each field that was priced.
        unpriced: fields that were used and have no price.
    """

    usd: Fraction | None
    parts: Mapping[str, Fraction]
    unpriced: tuple[str, ...]


def total(used: Mapping[str, Fraction], prices: Mapping[str, Fraction]) -> Total:
    """The sum of price times count over the fields of a usage record.

    Raises:
        ConfigError: a field is not one of `FIELDS`.
    """
    unknown = sorted({*used, *prices} - {*FIELDS})
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no field of a usage record; those are {', '.join(FIELDS)}")
    parts = {name: used[name] * prices[name] for name in FIELDS if used.get(name) and name in prices}
    unpriced = tuple(name for name in FIELDS if used.get(name) and name not in prices)
    return Total(None if unpriced else sum(parts.values(), Fraction(0)), parts, unpriced)


def cost_per_success(usd: Fraction, accepted: int) -> Fraction | None:
    """All that was spent, failed attempts too, by the tasks that met acceptance; None where none did."""
    return usd / accepted if accepted else None
