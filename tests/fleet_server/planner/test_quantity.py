"""Units: mandatory, exact, and of the dimension that is asked for."""

from fractions import Fraction

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.planner.quantity import (
    BYTE_RATE,
    BYTES,
    MONEY,
    PER_REQUEST,
    PER_TIME,
    PER_TOKEN,
    REQUEST_RATE,
    TIME,
    TOKEN_RATE,
    Dimension,
    count,
    decimal,
    quantity,
    whole,
)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("192GB", BYTES, Fraction(192 * 10**9)),
        ("1 GiB", BYTES, Fraction(2**30)),
        ("0.5kB", BYTES, Fraction(500)),
        ("64GB/s", BYTE_RATE, Fraction(64 * 10**9)),
        ("350ms", TIME, Fraction(35, 100)),
        ("1000usd", MONEY, Fraction(1000)),
        ("1.65usd/krequest", PER_REQUEST, Fraction(165, 100_000)),
        ("0.35usd/Mtoken", PER_TOKEN, Fraction(35, 100_000_000)),
        ("2usd/h", PER_TIME, Fraction(2, 3600)),
        ("15token/s", TOKEN_RATE, Fraction(15)),
        ("1Mrequest/day", REQUEST_RATE, Fraction(10**6, 86_400)),
        ("1e3usd", MONEY, Fraction(1000)),
    ],
)
def test_what_a_number_with_a_unit_is(text: str, dimension: Dimension, value: Fraction) -> None:
    assert quantity(text, dimension) == value


@pytest.mark.parametrize("text", ["192", "1.65", "0"])
def test_a_number_without_its_unit_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="lacks its unit: write an amount of memory like 160GB"):
        quantity(text, BYTES)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("1usd", PER_REQUEST),
        ("1usd/Mtoken", PER_REQUEST),
        ("1usd/request", MONEY),
        ("1GB/s", BYTES),
        ("1gb", BYTES),
        ("1usd/", PER_TOKEN),
        ("1request/usd", PER_REQUEST),
    ],
)
def test_another_unit_is_refused(text: str, dimension: Dimension) -> None:
    with pytest.raises(ConfigError, match="is not the unit of"):
        quantity(text, dimension)


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "nan GB", "inf", "\u0661GB", "1" * 40 + "GB", "0x10GB"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        quantity(text, BYTES)


@pytest.mark.parametrize(
    ("text", "value"), [("300B", 300 * 10**9), ("7M", 7 * 10**6), ("131072", 131_072), ("1.5K", 1500)]
)
def test_counts(text: str, value: int) -> None:
    assert count(text, "parameters") == value


@pytest.mark.parametrize("text", ["7b", "7GB", "", "-1"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(ConfigError, match="is no number of parameters"):
        count(text, "parameters")


@pytest.mark.parametrize("text", ["0", "1.5"])
def test_whole_numbers_are_whole_and_above_nothing(text: str) -> None:
    with pytest.raises(ConfigError, match="is no whole number of heads above 0"):
        whole(text, "heads")


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        (Fraction(150), 1, "150.0"),
        (Fraction(1, 3), 3, "0.333"),
        (Fraction(1_234_567), 0, "1,234,567"),
        (Fraction(-1, 2), 1, "-0.5"),
        (Fraction(-1, 1000), 1, "0.0"),
    ],
)
def test_how_numbers_are_written(value: Fraction, places: int, text: str) -> None:
    assert decimal(value, places) == text
