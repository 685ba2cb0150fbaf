"""Cooldown and rate cap."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.events.admission import WINDOW_NS, Admission, Verdict

S = NS_PER_S
OK, COOL, RATE = Verdict.ADMITTED, Verdict.COOLDOWN, Verdict.RATE


def test_a_cause_is_quiet_for_the_cooldown_after_its_event_is_over_and_others_are_not() -> None:
    admission = Admission(10 * S, 60)
    assert admission.ask(1, 0) is OK
    admission.over(1, 5 * S)
    assert [admission.ask(1, second * S) for second in (6, 14, 15)] == [COOL, COOL, OK]
    assert admission.ask(2, 6 * S) is OK


def test_without_cooldown_nothing_is_remembered() -> None:
    admission = Admission(0, 60)
    admission.ask(1, 0)
    admission.over(1, 0)
    assert admission.ask(1, 0) is OK


def test_a_new_epoch_frees_track_ids_and_keeps_zones_quiet() -> None:
    admission = Admission(10 * S, 60)
    admission.over(1, 0)
    admission.over("rule", 0)
    admission.new_epoch()
    assert admission.ask(1, S) is OK
    assert admission.ask("rule", S) is COOL


def test_causes_that_never_come_back_do_not_fill_the_memory() -> None:
    admission = Admission(S, 60)
    for track in range(10_000):
        admission.over(track, track * S)
    assert len(admission._quiet_until) <= 1024


@given(cap=st.integers(1, 5), gaps=st.lists(st.integers(0, 40 * S), max_size=60))
def test_never_more_than_the_cap_in_any_minute_and_never_refused_below_it(cap: int, gaps: list[int]) -> None:
    admission, now = Admission(0, cap), 0
    admitted: list[int] = []
    for gap in gaps:
        now += gap
        recent = sum(now - at < WINDOW_NS for at in admitted)
        verdict = admission.ask("rule", now)
        assert verdict is (OK if recent < cap else RATE)
        if verdict is OK:
            admitted.append(now)
    assert all(after - before >= WINDOW_NS for before, after in pairwise(admitted[::cap]))
