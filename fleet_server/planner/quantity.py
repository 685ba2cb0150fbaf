"""Numbers with units: exact, and never without their unit.

A price per request and one per thousand requests differ by a factor of a thousand and look alike, so a number that
needs a unit is refused without one. Decimal and binary bytes are different units. Values are fractions, so that
nothing is lost before it is printed.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final, NamedTuple

from edge_runtime.errors import ConfigError

_DAY_S: Final = 86_400

_UNITS: Final[Mapping[str, tuple[str, Fraction]]] = MappingProxyType(
    {
        "bit": ("bytes", Fraction(1, 8)),
        "B": ("bytes", Fraction(1)),
        **{name: ("bytes", Fraction(1000**power)) for power, name in enumerate(("kB", "MB", "GB", "TB"), 1)},
        **{
            name: ("bytes", Fraction(1024**power))
            for power, name in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)
        },
        "ms": ("time", Fraction(1, 1000)),
        "s": ("time", Fraction(1)),
        "min": ("time", Fraction(60)),
        "h": ("time", Fraction(3600)),
        "day": ("time", Fraction(_DAY_S)),
        "month": ("time", Fraction(365 * _DAY_S, 12)),
        "year": ("time", Fraction(365 * _DAY_S)),
        "usd": ("money", Fraction(1)),
        "token": ("tokens", Fraction(1)),
        "ktoken": ("tokens", Fraction(1000)),
        "Mtoken": ("tokens", Fraction(1_000_000)),
        "request": ("requests", Fraction(1)),
        "krequest": ("requests", Fraction(1000)),
        "Mrequest": ("requests", Fraction(1_000_000)),
        "task": ("tasks", Fraction(1)),
        "W": ("power", Fraction(1)),
        "kW": ("power", Fraction(1000)),
        "kWh": ("energy", Fraction(1000 * 3600)),
    }
)
"""Symbol to dimension and factor. A month is a twelfth of 365 days."""

_COUNTS: Final[Mapping[str, int]] = MappingProxyType({"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12})
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,12})?(?:e[0-9]{1,2})?", re.ASCII)


class Dimension(NamedTuple):
    """What a number measures.

    Attributes:
        name: for the sentence of a refusal.
        above: dimension above the stroke.
        below: dimension below it; empty where there is no stroke.
        example: as a person would write one.
    """

    name: str
    above: str
    below: str
    example: str


BYTES = Dimension("an amount of memory", "bytes", "", "160GB")
BYTE_RATE = Dimension("a rate of a link", "bytes", "time", "64GB/s")
TIME = Dimension("a time", "time", "", "350ms")
MONEY = Dimension("an amount of money", "money", "", "1000usd")
PER_REQUEST = Dimension("a price of requests", "money", "requests", "1.65usd/krequest")
PER_TOKEN = Dimension("a price of tokens", "money", "tokens", "0.35usd/Mtoken")
PER_TIME = Dimension("a cost of time", "money", "time", "2usd/h")
TOKEN_RATE = Dimension("a rate of tokens", "tokens", "time", "15token/s")
REQUEST_RATE = Dimension("a rate of requests", "requests", "time", "1Mrequest/day")


def quantity(text: str, dimension: Dimension) -> Fraction:
    """A number in the base units of its dimension: bytes, seconds, usd, tokens, requests.

    Args:
        text: as a person wrote it, such as `64GB/s`.
        dimension: what it has to be.

    Raises:
        ConfigError: it is no number, lacks its unit, or has another one.
    """
    found = _NUMBER.match(text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is not {dimension.name}: write it like {dimension.example}")
    unit = text.strip()[found.end() :].strip()
    if not unit:
        raise ConfigError(f"{text!r} lacks its unit: write {dimension.name} like {dimension.example}")
    above, _, below = unit.partition("/")
    factor = _factor(above, dimension.above)
    divisor = _factor(below, dimension.below) if dimension.below else (None if below else Fraction(1))
    if factor is None or divisor is None or (dimension.below and not below):
        raise ConfigError(f"{unit!r} is not the unit of {dimension.name}: write it like {dimension.example}")
    return Fraction(found.group()) * factor / divisor


def count(text: str, what: str) -> Fraction:
    """A plain number, with K, M, B or T for thousands to trillions as parameters are counted.

    Raises:
        ConfigError: it is none.
    """
    found = _NUMBER.match(text.strip())
    suffix = None if found is None else _COUNTS.get(text.strip()[found.end() :].strip())
    if found is None or suffix is None:
        raise ConfigError(f"{text!r} is no number of {what}: write it like 7B or 131072")
    return Fraction(found.group()) * suffix


def whole(text: str, what: str) -> int:
    """The same where it has to be a whole number above 0.

    Raises:
        ConfigError: it is none.
    """
    number = count(text, what)
    if number.denominator != 1 or number < 1:
        raise ConfigError(f"{text!r} is no whole number of {what} above 0")
    return number.numerator


def _factor(symbol: str, dimension: str) -> Fraction | None:
    found = _UNITS.get(symbol)
    return found[1] if found is not None and found[0] == dimension else None


def decimal(value: Fraction, places: int) -> str:
    """A fraction with so many places, rounded half to even, and thousands apart."""
    scaled = round(value * 10**places)
    sign, digits = ("-" if scaled < 0 else ""), str(abs(scaled)).rjust(places + 1, "0")
    head, tail = (digits[:-places], "." + digits[-places:]) if places else (digits, "")
    return f"{sign}{int(head):,}{tail}"


def gigabytes(value: Fraction) -> str:
    """Bytes as decimal GB with three places."""
    return f"{decimal(value / 10**9, 3)} GB"
