"""Cost: break-even, utilisation, use, and what a success costs."""

from fractions import Fraction

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.planner.money import (
    FIELDS,
    Hardware,
    break_even,
    cost_of_a_task,
    cost_per_success,
    total,
    utilisation,
)
from fleet_server.planner.quantity import PER_REQUEST, PER_TIME, PER_TOKEN, quantity

MET = {"quality": True, "latency": True, "reliability": True}


@pytest.mark.parametrize(("own", "requests"), [("0", 50_000), ("0.005", 66_667)])
def test_the_break_evens_of_the_requirements(own: str, requests: int) -> None:
    assert break_even(Fraction(1000), Fraction("0.02"), Fraction(own), **MET).requests == requests


@pytest.mark.parametrize("own", ["0.02", "0.03"])
def test_there_is_none_where_own_work_costs_as_much(own: str) -> None:
    found = break_even(Fraction(1000), Fraction("0.02"), Fraction(own), **MET)
    assert found.requests is None
    assert found.why.startswith("no break-even")


@pytest.mark.parametrize("missed", sorted(MET))
def test_there_is_nothing_to_compare_where_local_work_misses_what_is_asked(missed: str) -> None:
    with pytest.raises(ConfigError, match=f"does not meet what is asked of its {missed}"):
        break_even(Fraction(1000), Fraction(1), Fraction(0), **{**MET, missed: False})


def test_the_prices_of_a_response_are_per_thousand() -> None:
    hosted, own = (quantity(text, PER_REQUEST) for text in ("1.65usd/krequest", "0.0017usd/krequest"))
    found = break_even(Fraction(0), hosted, own, **MET)
    assert found.ratio is not None
    assert f"{float(found.ratio):.1f}" == "970.6"
    assert [hosted * 10**6, own * 10**6] == [1650, Fraction("1.7")]
    single = [quantity(text, PER_REQUEST) * 10**6 for text in ("1.65usd/request", "0.0017usd/request")]
    assert single == [1_650_000, 1700]


def test_a_rented_machine_pays_from_54_3_percent_on() -> None:
    found = utilisation(
        quantity("0.35usd/Mtoken", PER_TOKEN),
        quantity("0.19usd/Mtoken", PER_TOKEN),
        quantity("2usd/h", PER_TIME),
    )
    assert found.break_even == Fraction(19, 35)
    assert f"{float(found.break_even) * 100:.1f}" == "54.3"
    assert round(found.implied) == 2924
    assert utilisation(Fraction(1), Fraction(2), Fraction(1)).break_even is None


def test_idle_hardware_is_dear_and_owned_is_not_free() -> None:
    def used(share: str) -> tuple[Fraction, Fraction]:
        ten = Fraction(10)
        hardware = Hardware(ten, ten, ten, ten, ten, ten, Fraction(0), Fraction(1000), Fraction(share))
        return cost_of_a_task(hardware)

    assert used("0.1")[0] == 10 * used("1")[0]
    assert used("1") == (Fraction(60, 1000), Fraction(0))
    for share in ("0", "1.1"):
        with pytest.raises(ConfigError):
            used(share)


def test_use_is_summed_by_field_and_what_has_no_price_is_not_free() -> None:
    used = {"input_uncached": Fraction(1000), "output": Fraction(10), "search": Fraction(0)}
    prices = {"input_uncached": Fraction(1, 1000), "output": Fraction(1, 10)}
    assert total(used, prices).usd == 2
    missing = total({**used, "tools": Fraction(1)}, prices)
    assert (missing.usd, missing.unpriced) == (None, ("tools",))
    assert total({**used, "tools": Fraction(1)}, {**prices, "tools": Fraction(0)}).usd == 2
    words = {"words": Fraction(1)}
    for unknown, priced in ((words, prices), (used, words)):
        with pytest.raises(ConfigError, match="'words' is no field"):
            total(unknown, priced)
    assert len(set(FIELDS)) == 10


def test_what_a_success_costs() -> None:
    assert cost_per_success(Fraction("1.40"), 7) == Fraction("0.2")
    assert cost_per_success(Fraction("1.40"), 0) is None
