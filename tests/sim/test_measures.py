"""What is measured of a trace: times, counts, and what never happened."""

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
        windows=[Window("cable", "off", 5.0, 10.0)],
        series={"commands": Series("passed", [(0, 0), (4, 10), (5.4, 15), (6, 15), (11, 15), (13, 20)])},
        tripped={"source_stalled": [1.0, 5.4]},
        values={"duration": 20.0},
    )


@pytest.mark.parametrize(
    ("measure", "given", "found"),
    [
        ("reaction", {"after": "cable", "states": ["STOPPED"]}, 0.5),
        ("reaction", {"after": "cable", "states": ["NOMINAL"]}, 7.0),
        ("reaction", {"after": "cable", "states": ["SAFE"]}, None),
        ("recovery", {"after": "cable", "states": ["NOMINAL"]}, 2.0),
        ("recovery", {"after": "cable", "states": ["STOPPED"]}, 0.0),
        ("recovery", {"after": "cable", "states": ["SAFE"]}, None),
        ("moving", {"after": "cable"}, 0.4),
        ("condition", {"after": "cable", "condition": "source_stalled"}, 0.4),
        ("condition", {"after": "cable", "condition": "estop"}, None),
        ("trips", {"condition": "source_stalled"}, 2.0),
        ("in_states", {"states": ["STOPPED"]}, 6.5),
        ("in_states", {"states": ["NOMINAL"]}, 13.5),
        ("changes", {}, 2.0),
        ("lost", {}, 0.0),
        ("stop", {}, None),
        ("queue_peak", {}, None),
    ],
)
def test_measures(trace: Trace, measure: str, given: dict[str, object], found: float | None) -> None:
    measured = judge(trace, expected(measure, **given)).measured
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
