"""What is measured of a trace: times, counts, and what never happened."""

from collections import Counter

import pytest

from sim.scenario.measures import MEASURES, judge
from sim.scenario.records import Expectation
from sim.scenario.trace import Change, Series, Trace, Window


def expected(measure: str, **given: object) -> Expectation:
    fields: dict[str, object] = {"measure": measure, "unit": MEASURES[measure].unit, "at_most": 1.0, **given}
    return Expectation.model_validate(fields)


@pytest.fixture
def trace() -> Trace:
    return Trace(
        changes=[
            Change(0.0, "NOMINAL", ()),
            Change(5.5, "STOPPED", ("source_stalled",)),
            Change(12.0, "NOMINAL", ()),
        ],
        windows=[Window("cable", "off", 5.0, 10.0), Window("late", "off", 6.0, 10.0)],
        series={"commands": Series("passed", [(0, 0), (4, 10), (5.4, 15), (6, 15), (11, 15), (13, 20)])},
        tripped={"source_stalled": [1.0, 5.4]},
        counts=Counter({"lost": 0, "held": 3}),
        values={"duration": 20.0},
    )


@pytest.mark.parametrize(
    ("measure", "given", "found"),
    [
        ("reaction", {"after": "cable", "states": ["STOPPED"]}, 0.5),
        ("reaction", {"after": "cable", "states": ["NOMINAL"]}, None),  # it was so before
        ("reaction", {"after": "late", "states": ["STOPPED"]}, None),
        ("reaction", {"after": "late", "states": ["NOMINAL"]}, 6.0),
        ("reaction", {"after": "cable", "states": ["SAFE"]}, None),
        ("recovery", {"after": "cable", "states": ["NOMINAL"]}, 2.0),
        ("recovery", {"after": "cable", "states": ["STOPPED"]}, 0.0),
        ("recovery", {"after": "late", "states": ["STOPPED"]}, None),  # it never left it
        ("recovery", {"after": "cable", "states": ["SAFE"]}, None),
        ("moving", {"after": "cable"}, None),  # nothing had passed just before it
        ("moving", {"after": "late"}, None),
        ("condition", {"after": "cable", "condition": "source_stalled"}, 0.4),
        ("condition", {"after": "cable", "condition": "estop"}, None),
        ("trips", {"condition": "source_stalled"}, 2.0),
        ("in_states", {"states": ["STOPPED"]}, 6.5),
        ("in_states", {"states": ["NOMINAL"]}, 13.5),
        ("lost", {}, 0.0),
        ("held", {}, 3.0),
        ("frames", {}, None),  # nobody counted them
        ("stop", {}, None),
        ("queue_peak", {}, None),
    ],
)
def test_measures(trace: Trace, measure: str, given: dict[str, object], found: float | None) -> None:
    measured = judge(trace, expected(measure, **given)).measured
    assert measured == (None if found is None else pytest.approx(found))


@pytest.mark.parametrize(
    ("passes", "found"),
    [
        ([4.8, 4.9, 5.2, 5.4], 0.4),
        ([4.9], 0.0),  # it was closed at once
        ([4.9, 11.0], 0.0),  # after the fault is another matter
        ([5.2], None),  # it stood
        ([4.0], None),
    ],
)
def test_moving_takes_a_body_that_moved(trace: Trace, passes: list[float], found: float | None) -> None:
    points = [(0.0, 0.0)]
    for number, at in enumerate(passes, 1):
        points += [(at - 0.01, number - 1.0), (at, float(number))]
    trace.series["commands"] = Series("passed", points)
    measured = judge(trace, expected("moving", after="cable")).measured
    assert measured == (None if found is None else pytest.approx(found))


@pytest.mark.parametrize(
    ("limits", "met"),
    [
        ({"at_most": 0.5}, True),
        ({"at_most": 0.49}, False),
        ({"at_most": None, "at_least": 0.5}, True),
        ({"at_most": None, "at_least": 0.51}, False),
    ],
)
def test_limits_are_included(trace: Trace, limits: dict[str, object], met: bool) -> None:
    one = expected("reaction", after="cable", states=["STOPPED"], **limits)
    assert judge(trace, one).met is met


def test_what_never_happened_meets_no_limit(trace: Trace) -> None:
    found = judge(trace, expected("stop", at_most=1e9))
    assert not found.met
    assert found.text == "stop: never (at most 1e+09 m)"
