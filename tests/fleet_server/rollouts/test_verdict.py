"""The verdict: a table of numbers, and what holds for all numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_server.rollouts.pacing import allowance
from fleet_server.rollouts.plan_records import Pacing, StageRules
from fleet_server.rollouts.records import Verdict
from fleet_server.rollouts.states import APART, BAD, WORKING, MemberState
from fleet_server.rollouts.verdict import StageCounts, fails, holds, judge

RULES = StageRules(min_devices=5, min_share=0.8, max_bad=3, max_bad_share=0.2, soak_s=60, max_wait_s=600)
S = MemberState


def counts(excused: int = 0, **states: int) -> StageCounts:
    return StageCounts({MemberState(name): count for name, count in states.items()}, excused)


@pytest.mark.parametrize(
    ("found", "soaked_ms", "waited_ms", "verdict"),
    [
        (counts(healthy=10), 60_000, 0, Verdict.PASS),
        (counts(healthy=10), 59_999, 0, Verdict.WAIT),
        (counts(healthy=10), None, 999_999_999, Verdict.WAIT),  # it holds: soaking is let end
        (counts(healthy=4), 60_000, 0, Verdict.WAIT),
        (counts(healthy=4), None, 600_000, Verdict.INCONCLUSIVE),
        (counts(), None, 600_000, Verdict.INCONCLUSIVE),  # kind 19: nothing heard is no pass
        (counts(pending=100), None, 600_000, Verdict.INCONCLUSIVE),
        (counts(healthy=7, offered=3), 60_000, 0, Verdict.WAIT),
        (counts(healthy=8, offered=2), 60_000, 0, Verdict.PASS),
        (counts(healthy=8, unreachable=90), 60_000, 0, Verdict.PASS),
        (counts(healthy=8, superseded=9, withdrawn=9, decommissioned=9), 60_000, 0, Verdict.PASS),
        (counts(healthy=8, reverted=2), 60_000, 0, Verdict.PASS),  # 20 % is not more than 20 %
        (counts(healthy=7, reverted=2), 60_000, 0, Verdict.FAIL),
        (counts(reverted=1), 60_000, 0, Verdict.WAIT),  # 1 of 1: too few to say
        (counts(reverted=1, refused=1, stuck=1), 0, 0, Verdict.FAIL),  # 3 are enough, however few
        (counts(healthy=100, reverted=1, refused=1, stuck=1), 60_000, 0, Verdict.FAIL),
        (counts(healthy=8, excused=3), 60_000, 0, Verdict.PASS),
    ],
)
def test_the_verdict(found: StageCounts, soaked_ms: int | None, waited_ms: int, verdict: Verdict) -> None:
    said = judge(RULES, found, soaked_ms=soaked_ms, waited_ms=waited_ms)
    assert said.verdict is verdict
    assert (said.judged, said.bad, said.reachable) == (found.judged, found.bad, found.reachable)


def test_a_pass_says_how_little_it_shows() -> None:
    said = judge(RULES, counts(healthy=10), soaked_ms=60_000, waited_ms=0)
    assert said.upper_bound == pytest.approx(0.2589, abs=1e-4)
    assert "25.89 % with 95 % confidence".replace(" %", "%", 1) in said.text


NUMBERS = st.dictionaries(st.sampled_from(list(MemberState)), st.integers(0, 50))
SOME_RULES = st.builds(
    StageRules,
    min_devices=st.integers(1, 20),
    min_share=st.floats(0.01, 1),
    max_bad=st.none() | st.integers(1, 20),
    max_bad_share=st.floats(0, 1),
    soak_s=st.just(60),
    max_wait_s=st.just(600),
)


@given(NUMBERS, SOME_RULES, st.none() | st.integers(0, 100_000), st.integers(0, 1_000_000))
def test_no_pass_without_data_and_no_failure_without_a_bad_device(
    states: dict[MemberState, int], rules: StageRules, soaked_ms: int | None, waited_ms: int
) -> None:
    found = StageCounts(states)
    said = judge(rules, found, soaked_ms=soaked_ms, waited_ms=waited_ms)
    if said.verdict is Verdict.PASS:
        assert found.judged >= rules.min_devices
        assert found.judged >= rules.min_share * found.reachable
        assert soaked_ms is not None
        assert soaked_ms >= 60_000
        assert not fails(rules, found)
    if said.verdict is Verdict.FAIL:
        assert found.bad
    if said.verdict is Verdict.INCONCLUSIVE:
        assert waited_ms >= 600_000
        assert not holds(rules, found)


@given(NUMBERS, SOME_RULES, st.sampled_from(BAD))
def test_one_more_bad_device_never_makes_it_better(
    states: dict[MemberState, int], rules: StageRules, bad: MemberState
) -> None:
    worse = {**states, bad: states.get(bad, 0) + 1}
    if fails(rules, StageCounts(states)):
        # only where one more device makes the share that a bad one weighs no larger
        assert fails(rules, StageCounts(worse))
    assert StageCounts(worse).bad == StageCounts(states).bad + 1


@given(NUMBERS, st.sampled_from(APART), st.integers(1, 100))
def test_devices_that_say_nothing_change_nothing(
    states: dict[MemberState, int], state: MemberState, more: int
) -> None:
    without = StageCounts(states)
    added = StageCounts({**states, state: states.get(state, 0) + more})
    assert (without.judged, without.bad, without.reachable) == (added.judged, added.bad, added.reachable)


def test_every_state_is_of_one_kind() -> None:
    kinds = [*WORKING, *BAD, *APART, S.PENDING, S.HEALTHY]
    assert sorted(kinds) == sorted(MemberState)


@pytest.mark.parametrize(
    ("in_flight", "asked", "bytes_per_hour", "room"),
    [
        (0, 0, None, 50),
        (90, 0, None, 10),
        (100, 0, None, 0),
        (200, 0, None, 0),
        (0, 0, 30_000_000, 30),
        (0, 29, 30_000_000, 1),
        (0, 31, 30_000_000, 0),
        (0, 0, 10, 1),  # a release larger than an hour's bytes still goes to one device an hour
        (0, 1, 10, 0),
    ],
)
def test_how_many_are_asked_at_once(
    in_flight: int, asked: int, bytes_per_hour: int | None, room: int
) -> None:
    pacing = Pacing(max_in_flight=100, bytes_per_hour=bytes_per_hour)
    found = allowance(pacing, in_flight=in_flight, asked_last_hour=asked, device_bytes=1_000_000, at_once=50)
    assert found == room
