"""Quantisation, throttling, chains, speculation, and the data file."""

from fractions import Fraction

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.planner.facts import facts
from fleet_server.planner.latency import Stage, chain, reading_s
from fleet_server.planner.quantisation import schemes_for, shrinking
from fleet_server.planner.speculative import speculate
from fleet_server.planner.throttle import Cooling, admission

BILLION = Fraction(10**9)


def test_the_five_rows_of_the_table() -> None:
    assert [(scheme.name, scheme.shrinks, scheme.loss) for scheme in facts().schemes] == [
        ("Q8_0", 2, "< 2 %"),
        ("Q5_K_M", 3, "< 1 %"),
        ("Q4_K_M", 4, "1 to 3 %"),
        ("AWQ INT4", 4, "0.5 to 1.5 %"),
        ("Q3_K", 5, "5 to 10 %"),
    ]


def test_every_claim_has_its_source() -> None:
    known = facts()
    assert all(claim.source and claim.text for claim in known.claims.values())
    assert all(scheme.source for scheme in known.schemes)
    assert len(known.claims) == 10


def test_sizes_and_warnings_of_a_model() -> None:
    rows = {row.scheme.name: row for row in schemes_for(7 * BILLION, facts(), trained=False)}
    assert rows["Q4_K_M"].bytes == Fraction(7, 2) * BILLION
    assert [name for name, row in rows.items() if row.warnings] == ["Q4_K_M", "AWQ INT4"]
    assert "5 to 10 % without" in rows["AWQ INT4"].warnings[0]
    trained = schemes_for(7 * BILLION, facts(), trained=True)
    assert not any(row.warnings for row in trained)


def test_small_models_stay_at_five_or_eight_bits() -> None:
    rows = schemes_for(3 * BILLION, facts(), trained=True)
    assert [row.scheme.name for row in rows if row.warnings] == ["Q4_K_M", "AWQ INT4", "Q3_K"]
    with pytest.raises(ConfigError):
        schemes_for(Fraction(0), facts(), trained=True)


def test_sixteen_to_four_bits_take_three_quarters_off() -> None:
    assert shrinking(Fraction(16), Fraction(4)) == Fraction(3, 4)
    with pytest.raises(ConfigError):
        shrinking(Fraction(16), Fraction(0))


def test_the_voice_chain() -> None:
    chained = [
        Stage(str(at), Fraction(ms, 1000), Fraction(ms, 1000))
        for at, ms in enumerate((40, 350, 375, 100, 50))
    ]
    found = chain(tuple(chained), (facts().limits.people_notice,))
    assert found.best == found.worst == Fraction(915, 1000)
    assert found.over == (Fraction(1, 2),)


def test_a_range_has_a_best_and_a_worst() -> None:
    found = chain(
        (Stage("network", Fraction(20, 1000), Fraction(300, 1000)),), (Fraction(1, 10), Fraction(1, 100))
    )
    assert (found.best, found.worst) == (Fraction(20, 1000), Fraction(300, 1000))
    assert (found.over, found.may_be_over) == ((Fraction(1, 100),), (Fraction(1, 10),))
    for wrong in ((), (Stage("a", Fraction(2), Fraction(1)),), (Stage("a", Fraction(-1), Fraction(1)),)):
        with pytest.raises(ConfigError):
            chain(wrong, ())


@pytest.mark.parametrize(("tokens_per_word", "seconds"), [("1", "13.3"), ("1.33", "17.7")])
def test_two_hundred_words_at_fifteen_tokens_a_second(tokens_per_word: str, seconds: str) -> None:
    assert f"{float(reading_s(Fraction(200), Fraction(15), Fraction(tokens_per_word))):.1f}" == seconds


def test_what_may_be_planned_with() -> None:
    half = facts().limits.passive_share
    peak = Fraction(40)
    assert admission(peak, None, Cooling.PASSIVE, half).rate == 20
    warm = admission(peak, Fraction("22.6"), Cooling.PASSIVE, half)
    assert (warm.rate, round(warm.lost * 100)) == (Fraction("22.6"), 44)
    assert admission(peak, None, Cooling.ACTIVE, half).rate == 40
    for wrong in (Fraction(41), Fraction(0)):
        with pytest.raises(ConfigError):
            admission(peak, wrong, Cooling.PASSIVE, half)
    with pytest.raises(ConfigError):
        admission(Fraction(0), None, Cooling.PASSIVE, half)


def test_tokens_for_each_check() -> None:
    found = speculate(Fraction("0.7"), 4, Fraction(0), draft_tokenizer="a", target_tokenizer="a")
    assert found.tokens is not None
    assert f"{float(found.tokens):.2f}" == "2.77"
    sure = speculate(Fraction(1), 4, Fraction(1, 4), draft_tokenizer="a", target_tokenizer="a")
    assert [sure.tokens, sure.speed_up] == [5, Fraction(5, 2)]
    other = speculate(Fraction("0.7"), 4, Fraction(0), draft_tokenizer="a", target_tokenizer="b")
    assert (other.tokens, other.why.split(":")[0]) == (None, "not possible")
    for acceptance, proposed in ((2, 4), (1, 0)):
        with pytest.raises(ConfigError):
            speculate(Fraction(acceptance), proposed, Fraction(0), draft_tokenizer="a", target_tokenizer="a")
