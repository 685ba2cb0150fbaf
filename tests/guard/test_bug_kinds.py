"""The kinds of bug that robots were hurt by, B1 to B22 of the research, as far as the state machine decides them.

Each test is one way in, and what has to come out. Kinds that are about processes, pages, drives or rigs are not
shown here by imitations of those: README.md beside this file lists what is open, and where it will be shown.
"""

from typing import Any

import pytest

from edge_runtime.guard.conditions import TRAITS, Condition
from edge_runtime.guard.memory import CLOSED, Latch, Record, State
from edge_runtime.guard.refusals import check
from edge_runtime.guard.severity import Severity
from tests.rigs.guard_bodies import BOOT, CART, MS, Guard, profile_of

C, S = Condition, State


def test_b3_a_hung_worker_is_safe_in_the_same_turn_and_safety_does_not_wait_for_the_kill() -> None:
    guard = Guard().armed()
    out = guard.tick(C.WORKER_HUNG, suspects=("perception",))
    assert (guard.state(), out.permit, out.kills) == (S.SAFE, False, ("perception",))
    # the kill does nothing, as in uninterruptible sleep: it stays safe, and says that only a reboot helps
    out = guard.run(2_000, C.WORKER_HUNG, C.WORKER_UNKILLABLE, suspects=("perception",)).out
    assert (guard.state(), out.permit, out.feed) == (S.LOCKOUT, False, False)


def test_b4_a_step_of_the_wall_clock_moves_nothing() -> None:
    guard = Guard().armed()
    guard.run(30_000, C.CLOCK_STEPPED)
    assert guard.state() is S.NOMINAL
    assert guard.out.permit


@pytest.mark.parametrize(("on_ms", "off_ms"), [(10, 10), (20, 20), (90, 90), (140, 300), (100, 390)])
def test_b5_a_condition_that_toggles_faster_than_it_trips_counts_all_the_same(
    on_ms: int, off_ms: int
) -> None:
    guard = Guard().armed()
    for _ in range(100):
        guard.run(on_ms, C.SOURCE_STALLED)
        guard.run(off_ms)
        if guard.state() is S.STOPPED:
            break
    assert guard.state() is S.STOPPED


def test_b5_a_state_that_flaps_latches() -> None:
    guard = Guard().armed()
    for _ in range(3):
        guard.tick(C.EVENT_LATE)
        guard.run(2_500)
    assert guard.state() is S.SAFE
    assert guard.memory.latch is not None
    assert guard.memory.latch.causes & C.REPEATED_TRIPS.mask


def test_b6_a_starved_worker_is_not_a_hung_one() -> None:
    guard = Guard().armed()
    # the machine is busy: the guard itself is late, and sees ages that say nothing of the worker
    out = guard.tick(C.WORKER_HUNG, C.WORKER_STARVED, late_ns=20 * MS, ms=30, suspects=("perception",))
    assert (guard.state(), out.permit, out.kills) == (S.NOMINAL, False, ())
    guard.run(200, C.WORKER_STARVED, suspects=("perception",))
    assert (guard.state(), guard.out.limits, guard.out.kills) == (S.DEGRADED, "half", ())


@pytest.mark.parametrize("condition", [C.SOURCE_FROZEN, C.SOURCE_LATE, C.SOURCE_STALLED, C.SOURCE_DARK])
def test_b7_b8_a_camera_that_lies_or_is_silent_stops_the_body_although_all_processes_live(
    condition: Condition,
) -> None:
    guard = Guard().armed().run(510, condition)
    assert (guard.state(), guard.out.permit) == (S.STOPPED, False)


def test_b8_a_camera_that_never_comes_back_latches() -> None:
    guard = Guard().armed().run(62_000, C.SOURCE_STALLED)
    assert guard.state() is S.SAFE


@pytest.mark.parametrize("unknown", [C.BATTERY_MISSING, C.BATTERY_LOW, C.BATTERY_CRITICAL, C.BATTERY_FROZEN])
def test_b9_a_body_without_a_battery_reading_is_not_armed(unknown: Condition) -> None:
    guard = Guard().stood_by()
    guard.arm(unknown=(unknown,))
    assert guard.state() is S.STANDBY
    assert guard.sentences[-1] == f"the request to arm is refused: these are not well: {unknown.value}"


def test_b9_a_battery_reading_that_vanishes_or_freezes_counts_although_all_else_is_fresh() -> None:
    for condition in (C.BATTERY_MISSING, C.BATTERY_FROZEN):
        assert Guard().armed().run(5_010, condition).state() is S.SAFE
        assert Guard().armed().run(5_010, unknown=(condition,)).state() is S.SAFE


def test_b10_a_released_emergency_stop_moves_nothing_and_no_intent_outlives_it() -> None:
    guard = Guard().armed()
    assert guard.tick(C.ESTOP).flush
    old_arm_ns = guard.now_ns
    for _ in range(1_000):
        out = guard.tick(arm_ns=old_arm_ns)
        assert out.flush
        assert not out.permit
    assert guard.state() is S.SAFE


@pytest.mark.parametrize("condition", [C.ESTOP, C.LINK_LOST, C.SOURCE_STALLED, C.CRASH_LOOP])
def test_b11_no_state_without_permission_keeps_a_last_setpoint(condition: Condition) -> None:
    profile = profile_of(conditions__link_lost={"severity": "safe"})
    guard = Guard(profile).armed().run(5_010, condition)
    assert (guard.out.permit, guard.out.limits, guard.out.flush) == (False, CLOSED, True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"modes__drive__fallbacks": {"pose": "slow"}},
            "modes.drive.fallbacks.pose: slow needs the pose too",
        ),
        ({"modes__crawl__not_evaluated": ["estop"]}, "modes.crawl: must evaluate estop"),
        ({"modes__drive__slower": "drive"}, "modes: the fallbacks of drive lead in a circle"),
    ],
)
def test_b12_a_fallback_that_needs_what_failed_and_a_mode_that_looks_away_are_refused(
    changes: dict[str, Any], sentence: str
) -> None:
    assert check(profile_of(CART, **changes)) == [sentence]


def test_b12_a_check_that_is_not_made_counts_as_failed_in_every_mode() -> None:
    for mode in profile_of().modes:
        for condition in Condition:
            if TRAITS[condition].severity >= Severity.SAFE and condition.mask & profile_of().counted:
                assert mode.evaluates & condition.mask


def test_b13_a_worker_that_hangs_before_its_first_beat_is_found() -> None:
    """Nobody is armed by a first beat: what is not evaluated has until the end of the start."""
    guard = Guard().run(60_000, unknown=(C.WORKER_HUNG,))
    assert guard.state() is S.SAFE
    guard = Guard()
    guard.tick(C.WORKER_START_TIMEOUT, suspects=("perception",))
    assert (guard.state(), guard.out.kills) == (S.SAFE, ("perception",))


def test_b13_a_slow_and_healthy_start_is_left_alone() -> None:
    guard = Guard().run(57_000, unknown=(C.WORKER_HUNG, C.SOURCE_LATE))
    guard.run(2_500)
    assert guard.state() is S.STANDBY


def test_b14_the_hardware_watchdog_is_fed_by_turns_that_were_in_time_and_not_past_an_unkillable_worker() -> (
    None
):
    guard = Guard().armed()
    assert guard.tick().feed
    assert not guard.tick(late_ns=6 * MS).feed
    assert not guard.tick(C.WORKER_UNKILLABLE).feed


def test_b14_a_latched_body_is_fed_because_a_reboot_would_help_nobody() -> None:
    assert Guard().latched().tick().feed


@pytest.mark.parametrize("bounds", [{"camera": 0, "pose": 200}, {"pose": 200}])
def test_b15_a_bound_of_age_is_mandatory_and_zero_is_none(bounds: dict[str, int]) -> None:
    assert check(profile_of(freshness_ms=bounds)) == [
        "freshness_ms.camera: must be more than 0; there is no reading that may be of any age"
    ]


def test_b17_an_acknowledgement_during_the_deceleration_is_refused_and_one_at_standstill_is_not() -> None:
    guard = Guard().latched(C.ESTOP)
    for standstill in (False, None):
        guard.acknowledge(standstill=standstill)
        assert guard.state() is S.SAFE
    # and the latch itself is nothing that has to be clear before the acknowledgement of it
    guard.acknowledge()
    assert guard.state() is S.RECOVERY


@pytest.mark.parametrize("causes", [C.WORKER_UNKILLABLE.mask, C.ESTOP.mask])
def test_b18_a_reboot_is_no_acknowledgement_and_arms_nothing(causes: int) -> None:
    guard = Guard(found=Record(Latch("0123456789ab", S.SAFE, causes, 77), (77,), "the boot before"))
    guard.run(120_000, arm_ns=guard.now_ns)
    assert guard.state() is S.SAFE
    guard = Guard(found=Record(None, (), BOOT)).run(120_000, arm_ns=0)
    assert guard.state() is S.STANDBY
    assert not guard.out.permit


def test_b19_a_page_that_vanishes_or_freezes_is_no_good_news() -> None:
    """Whoever cannot read the page can evaluate nothing of it, and that counts as tripped."""
    guard = Guard().armed()
    guard.tick(unknown=(C.WORKER_HUNG, C.SLOT_DAMAGED, C.SOURCE_LATE, C.INFERENCE_LATE))
    assert (guard.state(), guard.out.permit) == (S.SAFE, False)


def test_b20_a_worker_that_is_blocked_in_a_driver_is_told_by_its_work_whatever_else_of_it_lives() -> None:
    """No condition says that a process is alive, so that nothing alive can outvote work that is not done."""
    guard = Guard().armed()
    guard.tick(C.WORKER_HUNG)
    assert guard.state() is S.SAFE
    assert not [condition for condition in Condition if "alive" in condition.value]
