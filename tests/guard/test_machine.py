"""Where conditions, requests and time lead; see also the properties in test_machine_properties.py."""

from collections.abc import Callable

import pytest

from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.guard.machine import AFTER
from edge_runtime.guard.memory import (
    CLOSED,
    LATCHED,
    PERMITTING,
    Change,
    Latch,
    Record,
    State,
)
from edge_runtime.guard.severity import Severity
from tests.rigs.guard_bodies import BOOT, MS, Guard

C, S = Condition, State


def degraded() -> Guard:
    guard = Guard().armed()
    guard.tick(C.EVENT_LATE)
    return guard


def stopped() -> Guard:
    guard = Guard().armed()
    guard.tick(C.OUTPUT_NOT_FINITE)
    return guard


def recovering() -> Guard:
    guard = Guard().latched()
    guard.acknowledge()
    return guard


def locked_out() -> Guard:
    guard = Guard().armed()
    guard.tick(C.CRASH_LOOP)
    return guard


IN: dict[State, Callable[[], Guard]] = {
    S.INIT: Guard,
    S.STANDBY: lambda: Guard().stood_by(),
    S.NOMINAL: lambda: Guard().armed(),
    S.DEGRADED: degraded,
    S.STOPPED: stopped,
    S.SAFE: lambda: Guard().latched(),
    S.RECOVERY: recovering,
    S.LOCKOUT: locked_out,
}

AT_ONCE = {
    Severity.WARN: C.CLOCK_STEPPED,
    Severity.DEGRADED: C.EVENT_LATE,
    Severity.STOPPED: C.OUTPUT_NOT_FINITE,
    Severity.SAFE: C.SLOT_DAMAGED,
    Severity.LOCKOUT: C.WORKER_UNKILLABLE,
}

#                    WARN, DEGRADED, STOPPED, SAFE, LOCKOUT
LEADS = {
    S.INIT: (S.INIT, S.INIT, S.INIT, S.SAFE, S.LOCKOUT),
    S.STANDBY: (S.STANDBY, S.STANDBY, S.STANDBY, S.SAFE, S.LOCKOUT),
    S.NOMINAL: (S.NOMINAL, S.DEGRADED, S.STOPPED, S.SAFE, S.LOCKOUT),
    S.DEGRADED: (S.DEGRADED, S.DEGRADED, S.STOPPED, S.SAFE, S.LOCKOUT),
    S.STOPPED: (S.STOPPED, S.STOPPED, S.STOPPED, S.SAFE, S.LOCKOUT),
    S.SAFE: (S.SAFE, S.SAFE, S.SAFE, S.SAFE, S.LOCKOUT),
    S.RECOVERY: (S.RECOVERY, S.RECOVERY, S.RECOVERY, S.SAFE, S.LOCKOUT),
    S.LOCKOUT: (S.LOCKOUT, S.LOCKOUT, S.LOCKOUT, S.LOCKOUT, S.LOCKOUT),
}


@pytest.mark.parametrize("severity", AT_ONCE)
@pytest.mark.parametrize("state", IN)
def test_the_worst_condition_leads_from_each_state_where_the_table_says(
    state: State, severity: Severity
) -> None:
    guard = IN[state]()
    assert guard.state() is state
    out = guard.tick(AT_ONCE[severity])
    assert guard.state() is LEADS[state][severity - 1]
    assert out.permit is (guard.state() in PERMITTING)
    assert out.flush is not out.permit
    assert (out.limits == CLOSED) is not out.permit
    assert (guard.memory.latch is not None) is (guard.state() in LATCHED)


def test_the_table_has_each_state_and_each_severity() -> None:
    assert list(AFTER) == list(State)
    assert {len(row) for row in AFTER.values()} == {len(Severity)}
    assert [AFTER[state][Severity.HEALTHY] for state in State] == [
        S.INIT, S.STANDBY, S.NOMINAL, S.NOMINAL, S.STOPPED, S.SAFE, S.RECOVERY, S.LOCKOUT,
    ]  # fmt: skip


def test_the_worst_of_several_conditions_wins() -> None:
    guard = Guard().armed()
    guard.tick(C.EVENT_LATE, C.OUTPUT_NOT_FINITE, C.CLOCK_STEPPED)
    assert guard.state() is S.STOPPED
    assert guard.changes[-1].causes == C.OUTPUT_NOT_FINITE.mask
    guard.tick(C.EVENT_LATE, C.WORKER_DEAD, C.ESTOP)
    assert guard.state() is S.SAFE
    assert guard.changes[-1].causes == C.WORKER_DEAD.mask | C.ESTOP.mask


def test_a_lockout_has_all_that_latches_among_its_causes() -> None:
    guard = Guard().armed()
    guard.tick(C.CRASH_LOOP, C.ESTOP, C.EVENT_LATE)
    assert guard.changes[-1].causes == C.CRASH_LOOP.mask | C.ESTOP.mask


# -- starting ---------------------------------------------------------------------------------------------------


def test_a_start_without_a_latch_proves_itself_and_then_waits_to_be_armed() -> None:
    guard = Guard()
    assert guard.state() is S.INIT
    assert guard.out == type(guard.out)(
        permit=False, limits=CLOSED, record=None, flush=True, kills=(), feed=True,
        changes=(Change(1_000 * MS, S.INIT, S.INIT, 0, None),),
        sentences=("INIT: the guard started, and nothing may move until it is armed",),
    )  # fmt: skip
    guard.run(1_000)
    assert guard.state() is S.INIT
    guard.tick()
    assert guard.state() is S.STANDBY
    guard.run(60_000)
    assert guard.state() is S.STANDBY


def test_what_nobody_evaluates_keeps_a_start_from_ending_and_does_not_latch_before_its_time() -> None:
    guard = Guard().run(59_000, unknown=(C.EVENT_LATE, C.WORKER_HUNG))
    assert guard.state() is S.INIT
    guard.run(1_000, unknown=(C.EVENT_LATE, C.WORKER_HUNG))
    assert guard.state() is S.SAFE
    assert guard.changes[-1].causes == C.START_TIMEOUT.mask | C.EVENT_LATE.mask | C.WORKER_HUNG.mask


def test_a_start_has_its_time_to_the_last_turn() -> None:
    guard = Guard().run(59_990, C.SOURCE_STALLED)
    assert guard.state() is S.INIT
    guard.tick(C.SOURCE_STALLED)
    assert guard.state() is S.SAFE
    assert list(conditions_in(guard.changes[-1].causes)) == [C.SOURCE_STALLED, C.START_TIMEOUT]


def test_healthy_time_of_a_start_has_no_break() -> None:
    guard = Guard().run(990)
    guard.tick(C.SOURCE_STALLED)
    guard.run(1_000)
    assert guard.state() is S.INIT
    guard.tick()
    assert guard.state() is S.STANDBY


def test_a_start_becomes_well_although_something_is_degraded() -> None:
    guard = Guard().run(1_100, C.EVENT_LATE)
    assert guard.state() is S.STANDBY
    guard.arm(C.EVENT_LATE)
    assert guard.state() is S.DEGRADED
    assert guard.out.permit
    assert guard.changes[-1] == Change(guard.now_ns, S.STANDBY, S.DEGRADED, C.EVENT_LATE.mask, None)


def test_a_pressed_emergency_stop_latches_in_a_start_too() -> None:
    guard = Guard()
    guard.tick(C.ESTOP)
    assert guard.state() is S.SAFE


def test_what_is_unknown_on_disk_is_a_latch() -> None:
    guard = Guard(found=None)
    assert guard.state() is S.SAFE
    assert guard.memory.latch == Latch(guard.latch_id, S.SAFE, C.LATCH_UNKNOWN.mask, 1_000 * MS)
    assert guard.out.record == Record(guard.memory.latch, (1_000 * MS,), BOOT)
    assert guard.sentences == [
        f"SAFE, latch {guard.latch_id}: what was latched before the start cannot be known (latch_unknown)"
    ]
    guard.run(1_000)
    guard.acknowledge()
    assert guard.state() is S.RECOVERY


@pytest.mark.parametrize("state", [S.SAFE, S.LOCKOUT])
def test_a_latch_survives_a_start_with_its_id_also_while_workers_still_start(state: State) -> None:
    latch = Latch("0123456789ab", state, C.WORKER_DEAD.mask, 5)
    guard = Guard(found=Record(latch, (3, 5), BOOT))
    assert guard.out.changes == (Change(1_000 * MS, S.INIT, state, C.WORKER_DEAD.mask, "0123456789ab"),)
    assert guard.out.record is None
    assert guard.memory.latches_ns == (3, 5)
    guard.run(5_000, unknown=tuple(Condition))
    assert guard.state() is state
    assert guard.latch_id == "0123456789ab"
    assert guard.memory.latch == Latch("0123456789ab", state, C.WORKER_DEAD.mask, 1_000 * MS)
    assert not guard.records
    guard.acknowledge(unknown=tuple(Condition))
    assert guard.state() is state


@pytest.mark.parametrize("state", [state for state in State if state not in LATCHED])
def test_a_record_with_a_latch_of_any_other_state_is_safe(state: State) -> None:
    guard = Guard(found=Record(Latch("0123456789ab", state, 0, 5), (), BOOT))
    assert guard.state() is S.SAFE
    assert guard.memory.latch == Latch("0123456789ab", S.SAFE, 0, 1_000 * MS)
    assert not guard.out.permit


def test_times_of_another_boot_count_as_of_now() -> None:
    guard = Guard(found=Record(None, (9_000_000 * MS, 9_000_001 * MS), "another boot"), now_ns=50 * MS)
    assert guard.memory.latches_ns == (50 * MS, 50 * MS)
    guard.armed().tick(C.ESTOP)
    assert guard.state() is S.LOCKOUT


# -- arming -----------------------------------------------------------------------------------------------------


def refusal(guard: Guard) -> str:
    (sentence,) = guard.out.sentences
    return sentence


def test_an_arm_request_has_to_be_newer_than_the_entry_into_standby() -> None:
    guard = Guard().stood_by()
    entered_ns = guard.memory.entered_ns
    guard.tick(arm_ns=entered_ns)
    assert guard.state() is S.STANDBY
    assert refusal(guard) == (
        "the request to arm is refused: it is not newer than the entry into STANDBY, or dated after now"
    )
    guard.tick(arm_ns=entered_ns + 1)
    assert guard.state() is S.NOMINAL


def test_an_arm_request_of_before_a_recovery_does_not_arm_after_it() -> None:
    guard = recovering()
    before_ns = guard.now_ns
    guard.run(2_000, arm_ns=before_ns)
    assert guard.state() is S.STANDBY
    assert [text for text in guard.sentences if "arm" in text][1:] == [
        "the request to arm is refused: the state is RECOVERY, and it has to be STANDBY"
    ]


def test_an_arm_request_dated_after_now_is_refused_then_and_later() -> None:
    guard = Guard().stood_by()
    ahead_ns = guard.now_ns + 11 * MS
    guard.tick(arm_ns=ahead_ns)
    assert "dated after now" in refusal(guard)
    guard.run(100, arm_ns=ahead_ns)
    assert guard.state() is S.STANDBY
    guard.arm()
    assert guard.state() is S.NOMINAL


def test_a_refused_arm_request_is_answered_once_and_not_kept() -> None:
    guard = Guard().stood_by()
    guard.arm(C.SOURCE_DARK)
    assert refusal(guard) == "the request to arm is refused: these are not well: source_dark"
    old_ns = guard.now_ns
    guard.tick(arm_ns=old_ns)
    assert guard.out.sentences == ()
    guard.run(3_000, arm_ns=old_ns - 1)
    assert guard.state() is S.STANDBY
    assert guard.out.sentences == ()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"unknown": (C.QUEUE_NEAR_FULL,)}, "these are not well: queue_near_full"),
        ({"disarm": True}, "the permission is being withdrawn"),
        ({"late_ns": 6 * MS}, "the guard itself woke late"),
    ],
)
def test_an_arm_request_needs_a_body_that_is_well_and_a_guard_that_is_in_time(
    more: dict[str, object], why: str
) -> None:
    guard = Guard().stood_by()
    guard.arm(**more)
    assert guard.state() is S.STANDBY
    assert refusal(guard) == f"the request to arm is refused: {why}"


def test_a_request_that_comes_as_the_state_changes_is_refused() -> None:
    guard = Guard().stood_by()
    guard.arm(C.ESTOP)
    assert guard.state() is S.SAFE
    assert guard.out.sentences[1:] == ("the request to arm is refused: the state changed in the same moment",)
    guard.acknowledge(C.CRASH_LOOP)
    assert guard.state() is S.LOCKOUT
    assert guard.out.sentences[1:] == (
        "the acknowledgement is refused: the state changed in the same moment",
    )


@pytest.mark.parametrize("state", IN)
def test_the_permission_can_be_withdrawn_wherever_it_is_or_may_come_back(state: State) -> None:
    guard = IN[state]()
    guard.tick(disarm=True)
    assert guard.state() is (S.STANDBY if state in (*PERMITTING, S.STOPPED) else state)
    assert not guard.out.permit


@pytest.mark.parametrize("severity", AT_ONCE)
@pytest.mark.parametrize("state", IN)
def test_no_condition_of_the_same_moment_hides_that_the_permission_was_withdrawn(
    state: State, severity: Severity
) -> None:
    guard = IN[state]()
    guard.tick(AT_ONCE[severity], disarm=True)
    led = LEADS[state][severity - 1]
    armed = (S.NOMINAL, S.DEGRADED, S.STOPPED)
    assert guard.state() is (S.STANDBY if state in armed and led in armed else led)


def test_a_withdrawal_goes_before_healthy_time_that_is_over() -> None:
    guard = stopped().run(7_000)
    assert guard.state() is S.STOPPED
    guard.tick(disarm=True)
    assert guard.state() is S.STANDBY


def test_what_only_warns_is_no_cause_of_getting_better() -> None:
    guard = Guard().run(2_000, Condition.CLOCK_STEPPED)
    assert guard.state() is State.STANDBY
    guard.arm(Condition.CLOCK_STEPPED)
    assert guard.state() is State.NOMINAL
    guard.run(200, Condition.MEMORY_PRESSURE, Condition.CLOCK_STEPPED, every_ms=10)
    guard.run(2_000, Condition.MEMORY_PRESSURE, Condition.CLOCK_STEPPED, every_ms=10)
    assert guard.state() is State.DEGRADED
    guard.run(6_000, Condition.CLOCK_STEPPED)
    assert guard.state() is State.NOMINAL
    assert [(change.after, change.causes) for change in guard.changes[1:]] == [
        (State.STANDBY, 0),
        (State.NOMINAL, 0),
        (State.DEGRADED, Condition.MEMORY_PRESSURE.mask),
        (State.NOMINAL, 0),
    ]
