"""Where work could be done: the matrix, the four questions, and the order of the rules."""

from fractions import Fraction
from typing import Any

import pytest

from fleet_server.planner.facts import facts
from fleet_server.planner.placement import Answers, MayLeave, Place, Work, place

LIMITS = facts().limits
DAY = 86_400
EVERYWHERE = Answers(
    may_leave=MayLeave.ALL,
    personal=False,
    offline=False,
    latency=Fraction(1),
    complex_latency=None,
    work=Work.NARROW,
    parameters=None,
    context=None,
    tokens=Fraction(5_000_000, DAY),
    steady=True,
    burst=Fraction(1),
    staff=True,
    hosted=Fraction(20_000 * 12, 365 * DAY),
)


def placed(**changes: Any) -> tuple[Place, str]:
    found = place(EVERYWHERE._replace(**changes), LIMITS)
    return found.place, found.rule


@pytest.mark.parametrize(
    ("changes", "where", "rule"),
    [
        ({"may_leave": MayLeave.NOTHING}, Place.EDGE, "edge only"),
        ({"offline": True}, Place.EDGE, "edge only"),
        ({"latency": Fraction(99, 1000)}, Place.EDGE, "edge only"),
        ({"work": Work.FRONTIER}, Place.CLOUD, "cloud only"),
        ({"burst": Fraction(10), "staff": False}, Place.CLOUD, "cloud only"),
        ({"context": 32_769}, Place.CLOUD, "cloud only"),
        (
            {"work": Work.BIMODAL, "latency": Fraction(199, 1000), "complex_latency": Fraction(401, 1000)},
            Place.HYBRID,
            "hybrid",
        ),
        ({"may_leave": MayLeave.PART}, Place.HYBRID, "hybrid"),
        ({"work": Work.BIMODAL}, Place.HYBRID, "hybrid"),
    ],
)
def test_the_nine_rows_of_the_matrix(changes: dict[str, Any], where: Place, rule: str) -> None:
    assert placed(**changes) == (where, rule)


@pytest.mark.parametrize(
    ("changes", "question", "where"),
    [
        ({"latency": Fraction(149, 1000)}, "latency", Place.EDGE),
        ({"latency": Fraction(299, 1000)}, "latency", Place.HYBRID),
        ({"latency": Fraction(501, 1000)}, "latency", Place.CLOUD),
        ({"may_leave": MayLeave.NOTHING}, "data", Place.EDGE),
        ({"personal": True}, "data", Place.HYBRID),
        ({}, "data", Place.CLOUD),
        ({"tokens": Fraction(199_000, DAY)}, "volume", Place.CLOUD),
        ({}, "volume", Place.CALCULATE),
        ({"tokens": Fraction(11_000_000, DAY)}, "volume", Place.EDGE),
        ({"parameters": Fraction(13 * 10**9)}, "ability", Place.EDGE),
        ({"parameters": Fraction(14 * 10**9)}, "ability", Place.CLOUD),
        ({"work": Work.FRONTIER}, "ability", Place.CLOUD),
    ],
)
def test_the_four_questions(changes: dict[str, Any], question: str, where: Place) -> None:
    found = place(EVERYWHERE._replace(**changes), LIMITS)
    assert {each.rule: each.place for each in found.questions}[question] is where
    assert [each.rule for each in found.questions] == ["latency", "data", "volume", "ability"]


@pytest.mark.parametrize(
    ("tokens", "steady", "where"),
    [
        (199_000, True, Place.CLOUD),
        (5_000_000, True, Place.CALCULATE),
        (11_000_000, True, Place.EDGE),
        (11_000_000, False, Place.CALCULATE),
    ],
)
def test_volume_decides_where_nothing_else_does(tokens: int, steady: bool, where: Place) -> None:
    assert placed(tokens=Fraction(tokens, DAY), steady=steady) == (where, "volume")


@pytest.mark.parametrize(
    ("monthly", "rule"), [(9_999, "operations double"), (10_000, "cloud only"), (None, "cloud only")]
)
def test_below_ten_thousand_a_month_frontier_work_is_not_worth_it(monthly: int | None, rule: str) -> None:
    hosted = None if monthly is None else Fraction(monthly * 12, 365 * DAY)
    found = place(EVERYWHERE._replace(work=Work.FRONTIER, hosted=hosted), LIMITS)
    assert (found.place, found.rule) == (Place.CLOUD, rule)
    assert ("not worth it" in found.text) is (rule == "operations double")


@pytest.mark.parametrize(
    "changes",
    [
        {"may_leave": MayLeave.NOTHING, "work": Work.FRONTIER},
        {"offline": True, "context": 40_000},
        {"latency": Fraction(1, 20), "parameters": Fraction(70 * 10**9)},
    ],
)
def test_what_nobody_can_do_where_it_may_be_done_is_nowhere(changes: dict[str, Any]) -> None:
    assert placed(**changes)[0] is Place.NOWHERE


@pytest.mark.parametrize("hosted", [None, Fraction(0), Fraction(10**9)])
@pytest.mark.parametrize("burst", [1, 100])
def test_no_price_and_no_burst_moves_what_may_not_leave(hosted: Fraction | None, burst: int) -> None:
    found = place(
        EVERYWHERE._replace(may_leave=MayLeave.NOTHING, hosted=hosted, burst=Fraction(burst)), LIMITS
    )
    assert found.place is Place.EDGE
    assert any("nothing may leave, so that a burst waits" in note for note in found.notes) is (burst == 100)


@pytest.mark.parametrize(
    ("may_leave", "says"),
    [(MayLeave.PART, "those classes alone that may leave"), (MayLeave.ALL, "may spill to a cloud")],
)
def test_a_burst_spills_only_where_it_may(may_leave: MayLeave, says: str) -> None:
    notes = place(EVERYWHERE._replace(may_leave=may_leave, burst=Fraction(10)), LIMITS).notes
    assert any(says in note for note in notes)
