"""What time does to conditions and states: budgets, hysteresis, healthy time, repeats, a guard that wakes late."""

import pytest

from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.guard.memory import State, Timer
from edge_runtime.guard.severity import Severity
from edge_runtime.guard.timers import active_in, advance, is_under_way
from edge_runtime.guard.verdict import Verdict, judge
from tests.rigs.guard_bodies import MS, Guard, profile_of

C, S = Condition, State
PROFILE = profile_of()


# -- budgets and hysteresis -------------------------------------------------------------------------------------


def after(timer: Timer | None, raw: bool, at_ms: int, gap_ms: int, *, late: bool = False) -> Timer | None:
    """How source_dark (trips after 500 ms, clears after 1000 ms) stands at a time, looked at after a gap."""
    timers = advance(
        () if timer is None else (timer,),
        C.SOURCE_DARK.mask if raw else 0,
        late=late,
        now_ns=at_ms * MS,
        looked_ns=(at_ms - gap_ms) * MS,
        profile=PROFILE,
    )
    return timers[0] if timers else None


DARK = C.SOURCE_DARK.bit


def test_a_budget_drains_while_the_condition_holds_and_refills_at_a_quarter() -> None:
    timer = after(None, True, 100, 10)
    assert timer == Timer(DARK, 10 * MS, None, None)
    timer = after(timer, True, 490, 390)
    assert timer == Timer(DARK, 400 * MS, None, None)
    timer = after(timer, False, 890, 400)
    assert timer == Timer(DARK, 300 * MS, None, 890 * MS)
    timer = after(timer, True, 990, 100)
    assert timer == Timer(DARK, 400 * MS, None, None)
    timer = after(timer, True, 1_089, 99)
    assert timer == Timer(DARK, 499 * MS, None, None)
    timer = after(timer, True, 1_090, 1)
    assert timer == Timer(DARK, 500 * MS, 1_090 * MS, None)
    timer = after(timer, True, 1_200, 110)
    assert timer == Timer(DARK, 500 * MS, 1_090 * MS, None)


def test_it_counts_until_it_was_clear_for_its_clear_time_without_a_break() -> None:
    timer = Timer(DARK, 500 * MS, 0, None)
    for at_ms, raw in ((100, False), (1_000, False), (1_050, True), (1_100, False)):
        changed = after(timer, raw, at_ms, 4)
        assert changed is not None
        timer = changed
        assert timer.since_ns == 0
    assert timer == Timer(DARK, 499 * MS, 0, 1_100 * MS)
    assert after(timer, False, 2_099, 4) == Timer(DARK, 498 * MS, 0, 1_100 * MS)
    assert after(timer, False, 2_100, 4) == Timer(DARK, 498 * MS, None, 1_100 * MS)
    assert repr(after(timer, False, 2_100, 5)).startswith(f"Timer(bit={DARK}, level_ns=497750000, ")


def test_it_is_at_rest_when_its_budget_is_full_again_and_it_does_not_count() -> None:
    assert after(Timer(DARK, 100 * MS, None, 0), False, 900, 399) == Timer(DARK, 250_000, None, 0)
    assert after(Timer(DARK, 100 * MS, None, 0), False, 900, 400) is None
    assert after(Timer(DARK, 100 * MS, None, 0), False, 900, 4_000) is None
    assert after(Timer(DARK, 0, 0, None), False, 400, 400) == Timer(DARK, 0, 0, 400 * MS)
    assert after(None, False, 1, 1) is None


def test_late_turns_clear_nothing_and_blame_nobody_for_an_age() -> None:
    timer = Timer(DARK, 100 * MS, None, 5)
    assert after(timer, False, 1_000, 100, late=True) == Timer(DARK, 100 * MS, None, None)
    # dark is seen in a picture, not by an age: it counts
    assert after(timer, True, 200, 100, late=True) == Timer(DARK, 200 * MS, None, None)
    stall, dark = C.SOURCE_STALLED, C.SOURCE_DARK
    old = (Timer(stall.bit, 100 * MS, None, 5),)
    held = advance(old, stall.mask, late=True, now_ns=900 * MS, looked_ns=0, profile=PROFILE)
    assert held == (Timer(stall.bit, 100 * MS, None, None),)
    assert advance((), stall.mask, late=True, now_ns=MS, looked_ns=0, profile=PROFILE) == ()
    assert advance((), dark.mask, late=True, now_ns=MS, looked_ns=0, profile=PROFILE) != ()


def test_conditions_do_not_touch_each_other() -> None:
    dark, hot = Timer(DARK, 0, None, None), Timer(C.SOC_HOT.bit, 7, None, None)
    raw = mask_of((C.SOURCE_DARK, C.EVENT_LATE, C.ESTOP))
    timers = advance((dark, hot), raw, late=False, now_ns=MS, looked_ns=0, profile=PROFILE)
    assert timers == (
        Timer(DARK, MS, None, None),
        Timer(C.EVENT_LATE.bit, 0, MS, None),
        Timer(C.ESTOP.bit, 0, MS, None),
    )
    assert active_in(timers) == mask_of((C.EVENT_LATE, C.ESTOP))
    assert active_in(()) == 0


def test_a_verdict_names_the_mode_that_is_left_and_the_first_one_where_nothing_may_move() -> None:
    needy = profile_of(modes__drive__needs=["link"])
    for profile, condition, severity, mode in (
        (PROFILE, None, Severity.HEALTHY, "drive"),
        (PROFILE, C.CLOCK_STEPPED, Severity.WARN, "drive"),
        (PROFILE, C.EVENT_LATE, Severity.DEGRADED, "slow"),
        (PROFILE, C.OUTPUT_NOT_FINITE, Severity.STOPPED, "drive"),
        (PROFILE, C.ESTOP, Severity.SAFE, "drive"),
        (PROFILE, C.CRASH_LOOP, Severity.LOCKOUT, "drive"),
        (needy, C.LINK_LOST, Severity.STOPPED, "drive"),
    ):
        timers = () if condition is None else (Timer(condition.bit, 0, 0, None),)
        mask = active_in(timers)
        expected = Verdict(severity, mask, profile.modes[0] if mode == "drive" else profile.modes[1])
        assert judge(timers, mask, profile.start_mode, 0, profile) == expected


# -- states -----------------------------------------------------------------------------------------------------


def test_nothing_to_do_leaves_all_but_the_time_as_it_was() -> None:
    guard = Guard().armed()
    guard.tick()
    memory = guard.memory
    guard.run(1_000)
    assert guard.memory == memory._replace(looked_ns=guard.now_ns)
    assert guard.out.permit
    assert guard.out.limits == "full"


def test_a_degraded_body_is_slower_and_comes_back_by_itself() -> None:
    guard = Guard().armed()
    guard.tick(C.EVENT_LATE)
    assert (guard.state(), guard.out.limits, guard.out.permit) == (S.DEGRADED, "half", True)
    guard.run(2_000)
    assert guard.state() is S.DEGRADED
    guard.tick()
    assert (guard.state(), guard.out.limits) == (S.NOMINAL, "full")
    assert guard.sentences[-1] == "NOMINAL, from DEGRADED"


def test_a_stopped_body_moves_again_after_healthy_seconds_without_an_act() -> None:
    guard = Guard().armed().run(170, C.SOURCE_STALLED)
    assert guard.state() is S.STOPPED
    assert guard.memory.latch is None
    assert guard.out.record is None
    guard.tick()
    cleared_ns = guard.now_ns + 1_000 * MS
    guard.run(1_000 + 4_990)
    assert guard.state() is S.STOPPED
    guard.tick()
    assert guard.state() is S.NOMINAL
    assert guard.now_ns == cleared_ns + 5_000 * MS
    assert guard.out.permit


@pytest.mark.parametrize("break_by", [C.SOURCE_STALLED, C.SOC_CRITICAL])
def test_healthy_time_has_no_break_even_of_what_does_not_count_yet(break_by: Condition) -> None:
    guard = Guard().armed().run(170, C.SOURCE_STALLED)
    guard.run(6_000)
    guard.tick(break_by)
    guard.run(5_000)
    assert guard.state() is S.STOPPED
    guard.tick()
    assert guard.state() is S.NOMINAL


def test_healthy_time_is_broken_by_what_is_not_evaluated_and_by_a_late_turn() -> None:
    for more in ({"unknown": (C.QUEUE_NEAR_FULL,)}, {"late_ns": 6 * MS}):
        guard = Guard().armed().run(170, C.SOURCE_STALLED)
        guard.run(6_000)
        guard.tick(**more)
        guard.run(5_000)
        assert guard.state() is S.STOPPED
        guard.tick()
        assert guard.state() is S.NOMINAL


def test_a_stopped_body_comes_back_degraded_if_something_is() -> None:
    guard = Guard().armed().run(170, C.SOURCE_STALLED)
    guard.run(6_010, C.EVENT_LATE)
    assert (guard.state(), guard.out.limits, guard.out.permit) == (S.DEGRADED, "half", True)
    assert guard.changes[-1].causes == C.EVENT_LATE.mask


def test_a_body_that_may_not_come_back_by_itself_latches_instead_of_stopping() -> None:
    guard = Guard(profile_of(stopped__returns=False)).armed().run(160, C.SOURCE_STALLED)
    assert guard.state() is S.SAFE
    assert guard.changes[-1].causes == C.SOURCE_STALLED.mask


def test_a_body_that_is_stopped_for_too_long_latches() -> None:
    guard = Guard().armed().run(150, C.SOURCE_STALLED)
    assert guard.state() is S.STOPPED
    guard.run(59_990, C.SOURCE_STALLED)
    assert guard.state() is S.STOPPED
    guard.tick(C.SOURCE_STALLED)
    assert guard.state() is S.SAFE
    assert guard.changes[-1].causes == mask_of((C.SOURCE_STALLED, C.STOPPED_TOO_LONG))


def test_a_start_and_a_stop_have_times_of_their_own() -> None:
    profile = profile_of(stopped={"longest_ms": 30_000}, start_ms=10_000)
    guard = Guard(profile).run(9_990, C.SOURCE_STALLED)
    assert guard.state() is S.INIT
    guard.tick(C.SOURCE_STALLED)
    assert guard.state() is S.SAFE
    guard = Guard(profile).armed().run(150, C.SOURCE_STALLED)
    guard.run(29_990, C.SOURCE_STALLED)
    assert guard.state() is S.STOPPED
    guard.tick(C.SOURCE_STALLED)
    assert guard.state() is S.SAFE


def test_a_condition_gets_worse_with_time() -> None:
    guard = Guard().armed()
    guard.tick(C.INFERENCE_LATE)
    assert guard.state() is S.DEGRADED
    guard.run(1_990, C.INFERENCE_LATE)
    assert guard.state() is S.DEGRADED
    guard.tick(C.INFERENCE_LATE)
    assert guard.state() is S.STOPPED


def test_a_lost_need_leads_to_the_fallback_which_does_not_evaluate_it_any_more() -> None:
    guard = Guard().armed().run(510, C.POSE_STALE)
    assert (guard.state(), guard.out.limits) == (S.DEGRADED, "tenth")
    guard.run(10_000, C.POSE_STALE)
    assert (guard.state(), guard.out.limits) == (S.DEGRADED, "tenth")
    guard.run(10_000, unknown=(C.POSE_STALE,))
    assert (guard.state(), guard.out.limits) == (S.DEGRADED, "tenth")
    guard.run(1_010)
    assert (guard.state(), guard.out.limits) == (S.NOMINAL, "full")


def test_a_condition_that_a_mode_evaluates_gets_worse_in_it() -> None:
    guard = Guard(profile_of(modes__crawl__not_evaluated=[])).armed().run(1_990, C.POSE_STALE)
    assert guard.state() is S.DEGRADED
    guard.run(10, C.POSE_STALE)
    assert guard.state() is S.SAFE


def test_a_lost_need_without_a_fallback_stops_until_it_is_back() -> None:
    profile = profile_of(conditions__link_lost={"trip_ms": 100}, modes__drive__needs=["link"])
    guard = Guard(profile).armed().run(110, C.LINK_LOST)
    assert guard.state() is S.STOPPED
    assert guard.changes[-1].causes == C.LINK_LOST.mask
    guard.run(10_000, C.LINK_LOST)
    assert guard.state() is S.STOPPED
    guard.run(2_010)
    guard.run(4_990)
    assert guard.state() is S.STOPPED
    guard.tick()
    assert guard.state() is S.NOMINAL
    latching = profile_of(
        conditions__link_lost={"trip_ms": 100}, modes__drive__needs=["link"], stopped__returns=False
    )
    guard = Guard(latching).armed().run(110, C.LINK_LOST)
    assert guard.state() is S.SAFE


def test_a_lost_need_that_only_warns_leads_nowhere() -> None:
    profile = profile_of(conditions__pose_stale={"severity": "warn"})
    guard = Guard(profile).armed().run(1_900, C.POSE_STALE)
    assert (guard.state(), guard.out.limits) == (S.NOMINAL, "full")


def test_a_latch_leaves_the_fallback_so_that_what_it_does_not_evaluate_gets_worse_again() -> None:
    guard = Guard().armed().run(1_000, C.POSE_STALE)
    assert guard.memory.mode.name == "crawl"
    guard.tick(C.POSE_STALE, C.ESTOP)
    assert guard.memory.mode.name == "drive"
    guard.run(2_000, C.POSE_STALE)
    assert guard.memory.latch is not None
    assert guard.memory.latch.causes == mask_of((C.POSE_STALE, C.ESTOP))


def test_healthy_time_ends_with_the_state_that_counted_it() -> None:
    guard = Guard().stood_by()
    guard.armed().tick(C.OUTPUT_NOT_FINITE)
    guard.run(3_000)
    assert guard.memory.healthy_since_ns is not None
    guard.tick(disarm=True)
    assert guard.state() is S.STANDBY
    assert guard.memory.healthy_since_ns is None


# -- repeats ----------------------------------------------------------------------------------------------------


def turn(guard: Guard) -> None:
    """Worse once, and back."""
    guard.tick(C.EVENT_LATE)
    if guard.state() is S.DEGRADED:
        guard.run(2_010)


def test_the_third_turn_for_the_worse_within_its_window_latches() -> None:
    guard = Guard().armed()
    turn(guard)
    turn(guard)
    assert guard.state() is S.NOMINAL
    turn(guard)
    assert guard.state() is S.SAFE
    assert guard.changes[-1].causes == mask_of((C.EVENT_LATE, C.REPEATED_TRIPS))
    guard.acknowledge()
    assert guard.state() is S.SAFE
    guard.run(2_000)
    guard.acknowledge()
    guard.armed()
    turn(guard)
    turn(guard)
    assert guard.state() is S.NOMINAL


@pytest.mark.parametrize(("gap_ms", "state"), [(59_990, S.SAFE), (60_000, S.DEGRADED)])
def test_turns_for_the_worse_are_forgotten_after_their_window(gap_ms: int, state: State) -> None:
    guard = Guard().armed()
    turn(guard)
    first_ns = guard.changes[-2].at_ns
    turn(guard)
    guard.run((first_ns - guard.now_ns) // MS + gap_ms - 10)
    guard.tick(C.EVENT_LATE)
    assert guard.now_ns == first_ns + gap_ms * MS
    assert guard.state() is state


def test_from_degraded_to_stopped_is_a_turn_for_the_worse_and_the_way_back_is_none() -> None:
    guard = Guard().armed()
    guard.tick(C.EVENT_LATE)
    guard.tick(C.OUTPUT_NOT_FINITE)
    assert guard.state() is S.STOPPED
    assert len(guard.memory.turns_ns) == 2
    guard.run(7_100)
    assert guard.state() is S.NOMINAL
    assert len(guard.memory.turns_ns) == 2
    guard.tick(C.EVENT_LATE)
    assert guard.state() is S.SAFE


# -- a guard that wakes late ------------------------------------------------------------------------------------


def test_a_late_guard_renews_nothing_and_blames_nobody() -> None:
    guard = Guard().armed()
    out = guard.tick(C.WORKER_HUNG, late_ns=5 * MS + 1, ms=15, suspects=("perception",))
    assert guard.state() is S.NOMINAL
    assert (out.permit, out.feed, out.flush, out.kills) == (False, False, False, ())
    assert out.limits == "full"
    out = guard.tick(late_ns=5 * MS)
    assert (out.permit, out.feed) == (True, True)


@pytest.mark.parametrize("late_ms", [6, 101])
def test_a_late_guard_still_obeys_what_is_not_found_by_an_age(late_ms: int) -> None:
    guard = Guard().armed()
    guard.tick(C.ESTOP, late_ns=late_ms * MS)
    assert guard.state() is S.SAFE


def test_a_guard_that_is_late_all_the_time_degrades_and_then_latches() -> None:
    guard = Guard().armed().run(90, late_ns=6 * MS)
    assert guard.state() is S.NOMINAL
    guard.run(10, late_ns=6 * MS)
    assert guard.state() is S.DEGRADED
    assert not guard.out.permit
    guard.run(1_990, late_ns=6 * MS)
    assert guard.state() is S.DEGRADED
    guard.tick(late_ns=6 * MS)
    assert guard.state() is S.SAFE
    assert guard.changes[-1].causes == C.GUARD_LATE.mask


@pytest.mark.parametrize(("late_ms", "state"), [(90, S.NOMINAL), (100, S.DEGRADED), (101, S.STOPPED)])
def test_a_guard_that_was_paused_stops_the_body(late_ms: int, state: State) -> None:
    guard = Guard().armed()
    guard.tick(late_ns=late_ms * MS, ms=late_ms)
    assert guard.state() is state


def test_lateness_is_judged_by_the_machine_alone() -> None:
    guard = Guard().armed()
    guard.run(1_000, C.GUARD_LATE, C.GUARD_PAUSED, unknown=(C.GUARD_LATE, C.GUARD_PAUSED))
    assert guard.state() is S.NOMINAL


def test_what_the_machine_finds_itself_cannot_be_told_from_outside() -> None:
    own = (C.START_TIMEOUT, C.REPEATED_TRIPS, C.REPEATED_LATCHES, C.LATCH_UNKNOWN, C.STOPPED_TOO_LONG)
    guard = Guard().armed().run(1_000, *own, unknown=own)
    assert guard.state() is S.NOMINAL


# -- workers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", Condition)
def test_suspects_are_killed_for_what_is_said_of_workers_and_for_nothing_else(condition: Condition) -> None:
    guard = Guard().armed()
    out = guard.run(6_000, condition, every_ms=100, suspects=("perception", "uplink")).out
    killing = condition in (C.WORKER_DEAD, C.WORKER_HUNG, C.WORKER_START_TIMEOUT)
    assert out.kills == (("perception", "uplink") if killing else ())


@pytest.mark.parametrize("condition", Condition)
def test_the_hardware_watchdog_is_fed_unless_only_a_reboot_helps(condition: Condition) -> None:
    guard = Guard().armed()
    assert guard.run(6_000, condition, every_ms=100).out.feed is (condition is not C.WORKER_UNKILLABLE)


# -- when to look again -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timer", "under_way"),
    [
        (Timer(DARK, 10 * MS, None, None), True),  # drains
        (Timer(DARK, 10 * MS, None, 5 * MS), True),  # refills
        (Timer(DARK, 500 * MS, 1 * MS, 5 * MS), True),  # on its way to be clear
        (Timer(DARK, 500 * MS, 1 * MS, None), False),  # counts, and goes on holding
        (Timer(C.POSE_STALE.bit, 500 * MS, 1000 * MS, None), True),  # gets worse after 1,500 ms
        (Timer(C.POSE_STALE.bit, 500 * MS, 500 * MS, None), True),  # at that very moment
        (Timer(C.POSE_STALE.bit, 500 * MS, 499 * MS, None), False),  # it has got worse
    ],
)
def test_what_time_alone_may_change(timer: Timer, under_way: bool) -> None:
    assert is_under_way((timer,), 2000 * MS, PROFILE) is under_way
    steady = Timer(C.SOURCE_FROZEN.bit, 150 * MS, 1 * MS, None)
    assert is_under_way((steady, timer), 2000 * MS, PROFILE) is under_way


def test_at_rest_nothing_is_under_way() -> None:
    assert not is_under_way((), 0, PROFILE)
