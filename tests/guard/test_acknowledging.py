"""How a latch is left: by whom, when, and only by the way through RECOVERY and STANDBY."""

import hashlib
from typing import Any

import pytest

from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.guard.memory import Acknowledgement, Change, Latch, Record, State
from tests.rigs.guard_bodies import BOOT, CAMERA, MS, Guard, profile_of

C, S = Condition, State


PREFIX = "the acknowledgement is refused: "


def refusal(guard: Guard) -> str:
    (sentence,) = guard.out.sentences
    return sentence.removeprefix(PREFIX)


def test_the_way_from_safe_to_motion_has_four_states_and_two_acts() -> None:
    guard = Guard().latched(C.ESTOP)
    guard.run(60_000)
    assert guard.state() is S.SAFE
    guard.acknowledge()
    guard.run(60_000)
    assert guard.state() is S.STANDBY
    assert not guard.out.permit
    assert guard.arm().permit
    ways = [S.SAFE, S.RECOVERY, S.STANDBY, S.NOMINAL]
    assert [change.after for change in guard.changes[-4:]] == ways
    assert [sentence.partition(",")[0] for sentence in guard.sentences[-4:]] == [way.value for way in ways]


def test_a_latch_is_to_be_written_down_as_it_begins_and_as_it_ends() -> None:
    guard = Guard().armed()
    assert guard.records == []
    guard.tick(C.ESTOP)
    latch = Latch(guard.latch_id, S.SAFE, C.ESTOP.mask, guard.now_ns)
    began_ns = guard.now_ns
    assert guard.out.record == Record(latch, (began_ns,), BOOT)
    assert guard.out.changes == (Change(began_ns, S.NOMINAL, S.SAFE, C.ESTOP.mask, latch.id),)
    guard.run(1_000, C.ESTOP)
    assert len(guard.records) == 1
    guard.acknowledge()
    assert guard.out.record == Record(None, (began_ns,), BOOT)
    assert guard.out.changes == (Change(guard.now_ns, S.SAFE, S.RECOVERY, 0, None),)


def test_ids_of_latches_differ_and_depend_on_the_secret_of_the_start() -> None:
    guard = Guard().latched()
    first = guard.latch_id
    assert first == hashlib.blake2b(b"1", key=bytes(range(16)), digest_size=6, person=b"latch").hexdigest()
    guard.acknowledge()
    guard.tick(C.ESTOP)
    assert (
        guard.latch_id
        == hashlib.blake2b(b"2", key=bytes(range(16)), digest_size=6, person=b"latch").hexdigest()
    )
    other = Guard()
    other.memory = other.memory._replace(nonce=b"x" * 16)
    assert other.latched().latch_id != first


@pytest.mark.parametrize(
    ("cause", "after", "change", "why"),
    [
        (C.SLOT_DAMAGED, (), {"latch_id": "another"}, "it names the latch another, and what holds is {id}"),
        (
            C.SLOT_DAMAGED,
            (),
            {"latch_id": "x" * 90},
            f"it names the latch {'x' * 40}, and what holds is {{id}}",
        ),
        (C.SLOT_DAMAGED, (), {"old": True}, "it is not newer than the latch, or dated after now"),
        (C.SLOT_DAMAGED, (), {"ahead": True}, "it is not newer than the latch, or dated after now"),
        (C.SLOT_DAMAGED, (C.SLOT_DAMAGED,), {}, "these are not clear: slot_damaged"),
        (C.SLOT_DAMAGED, (), {"unknown": (C.WORKER_HUNG,)}, "these are not clear: worker_hung"),
        (C.SLOT_DAMAGED, (C.BATTERY_MISSING,), {}, "these are not clear: battery_missing"),
        (C.SLOT_DAMAGED, (), {"standstill": False}, "standstill is not confirmed"),
        (C.SLOT_DAMAGED, (), {"standstill": None}, "standstill is not confirmed"),
        (C.SLOT_DAMAGED, (C.WORKER_DEAD,), {}, "the state changed in the same moment"),
        (
            C.SLOT_DAMAGED,
            (),
            {"unknown": (C.WORKER_HUNG, C.ESTOP)},
            "these are not clear: worker_hung, estop",
        ),
        (C.CONFIG_CHANGED, (), {}, "somebody at the machine has to reset it first"),
        (C.CRASH_LOOP, (), {}, "somebody at the machine has to reset it first"),
    ],
)
def test_an_acknowledgement_is_refused(
    cause: Condition, after: tuple[Condition, ...], change: dict[str, Any], why: str
) -> None:
    guard = Guard().armed()
    guard.tick(cause)
    latched_ns, state = guard.now_ns, guard.state()
    change = dict(change)
    latch_id = change.pop("latch_id", guard.latch_id)
    received_ns = guard.now_ns + 10 * MS
    if change.pop("old", False):
        received_ns = latched_ns
    if change.pop("ahead", False):
        received_ns += 1
    guard.tick(*after, ack=Acknowledgement(latch_id, received_ns), **change)
    assert guard.out.sentences[-1] == PREFIX + why.format(id=guard.latch_id)
    assert guard.state() is state
    assert not guard.out.permit


def test_an_acknowledgement_is_taken_one_nanosecond_after_the_latch() -> None:
    guard = Guard().latched()
    guard.tick(ack=Acknowledgement(guard.latch_id, guard.now_ns + 1))
    assert guard.state() is S.RECOVERY


def test_an_acknowledgement_is_answered_once() -> None:
    guard = Guard().latched()
    ack = Acknowledgement(guard.latch_id, guard.now_ns + 10 * MS)
    guard.tick(C.WORKER_DEAD, ack=ack)
    assert refusal(guard) == "these are not clear: worker_dead"
    guard.run(1_000, ack=ack)
    assert guard.state() is S.SAFE
    assert guard.out.sentences == ()
    guard.acknowledge()
    assert guard.state() is S.RECOVERY


def test_an_older_acknowledgement_is_not_answered_after_a_newer_one() -> None:
    guard = Guard().latched()
    early = Acknowledgement(guard.latch_id, guard.now_ns + 1)
    guard.acknowledge(C.WORKER_DEAD)
    guard.run(100, ack=early)
    assert guard.state() is S.SAFE


def test_an_acknowledgement_of_nothing_is_refused() -> None:
    guard = Guard().armed()
    guard.tick(ack=Acknowledgement("0123456789ab", guard.now_ns + 10 * MS))
    assert refusal(guard) == "nothing is latched"
    assert guard.out.permit


def test_an_acknowledgement_cannot_be_used_again() -> None:
    guard = Guard().latched()
    ack = Acknowledgement(guard.latch_id, guard.now_ns + 10 * MS)
    guard.tick(ack=ack)
    guard.run(100)
    guard.tick(C.WORKER_DEAD)
    guard.run(100, ack=ack)
    guard.tick(ack=Acknowledgement(ack.latch_id, guard.now_ns + 10 * MS))
    assert refusal(guard).startswith(f"it names the latch {ack.latch_id}, and what holds is")
    assert guard.state() is S.SAFE


def test_a_reset_and_then_an_acknowledgement_leave_a_lockout() -> None:
    guard = Guard().armed()
    guard.tick(C.CRASH_LOOP)
    latched_ns = guard.now_ns
    for reset_ns in (latched_ns, latched_ns + 1_000 * MS):
        guard.acknowledge(reset_ns=reset_ns)
        assert refusal(guard) == "somebody at the machine has to reset it first"
    guard.acknowledge(reset_ns=latched_ns + 1)
    assert guard.state() is S.RECOVERY
    assert guard.out.record == Record(None, (), BOOT)


def test_a_reset_of_this_very_moment_counts() -> None:
    guard = Guard().armed()
    guard.tick(C.CONFIG_CHANGED)
    guard.acknowledge(reset_ns=guard.now_ns + 10 * MS)
    assert guard.state() is S.RECOVERY


def test_a_body_that_does_not_travel_needs_no_standstill_unless_the_cause_asks_for_it() -> None:
    profile = profile_of(CAMERA, conditions__estop=None)
    guard = Guard(profile).latched(C.WORKER_DEAD)
    guard.acknowledge(standstill=None)
    assert guard.state() is S.RECOVERY
    guard = Guard(profile).latched(C.ESTOP)
    guard.acknowledge(standstill=None)
    assert refusal(guard) == "standstill is not confirmed"
    guard.acknowledge()
    assert guard.state() is S.RECOVERY
    guard = Guard(profile).armed()
    guard.tick(C.CONFIG_CHANGED)
    guard.acknowledge(standstill=None, reset_ns=guard.now_ns + 1)
    assert refusal(guard) == "standstill is not confirmed"


def test_a_latch_that_gets_another_cause_gets_another_id() -> None:
    guard = Guard().latched(C.ESTOP)
    seen = guard.latch_id
    entered_ns = guard.memory.entered_ns
    guard.tick(C.ESTOP, C.CONFIG_CHANGED)
    both = mask_of((C.ESTOP, C.CONFIG_CHANGED))
    assert guard.latch_id != seen
    assert guard.memory.latch == Latch(guard.latch_id, S.SAFE, both, guard.now_ns)
    assert guard.out.record == Record(guard.memory.latch, (entered_ns,), BOOT)
    assert guard.out.changes == (Change(guard.now_ns, S.SAFE, S.SAFE, both, guard.latch_id),)
    assert guard.memory.entered_ns == entered_ns
    guard.acknowledge(latch_id=seen, reset_ns=guard.now_ns + 1)
    assert "it names the latch" in refusal(guard)
    held = guard.latch_id
    guard.run(100, C.ESTOP)
    assert guard.latch_id == held


def test_what_is_only_unknown_gives_a_latch_no_other_cause() -> None:
    guard = Guard().latched()
    held = guard.latch_id
    guard.run(10_000, unknown=tuple(Condition))
    assert guard.latch_id == held


def test_what_is_unknown_is_no_cause_beside_something_that_was_found() -> None:
    guard = Guard().latched()
    held = guard.latch_id
    guard.run(1_000, C.EVENT_LATE, unknown=(C.SLOT_DAMAGED,))
    assert guard.latch_id == held
    guard.tick(C.ESTOP, unknown=(C.SLOT_DAMAGED,))
    assert guard.memory.latch is not None
    assert guard.memory.latch.causes == mask_of((C.WORKER_DEAD, C.ESTOP))


def test_what_does_not_latch_gives_a_latch_no_other_cause() -> None:
    guard = Guard().latched()
    held = guard.latch_id
    guard.run(1_000, C.OUTPUT_NOT_FINITE, C.EVENT_LATE)
    assert guard.latch_id == held


def test_a_lockout_that_gets_another_cause_gets_another_id() -> None:
    guard = Guard().armed()
    guard.tick(C.CRASH_LOOP)
    held = guard.latch_id
    guard.tick(C.EVENT_LATE)
    assert guard.latch_id == held
    guard.tick(C.ESTOP)
    assert guard.latch_id != held
    assert guard.state() is S.LOCKOUT
    assert guard.memory.latch is not None
    assert guard.memory.latch.state is S.LOCKOUT
    assert guard.memory.latch.causes == mask_of((C.CRASH_LOOP, C.ESTOP))


def test_the_third_latch_within_its_window_locks_out() -> None:
    guard = Guard()
    for _ in range(2):
        guard.armed().tick(C.ESTOP)
        assert guard.state() is S.SAFE
        guard.acknowledge()
    guard.armed().tick(C.ESTOP)
    assert guard.state() is S.LOCKOUT
    assert guard.changes[-1].causes == mask_of((C.ESTOP, C.REPEATED_LATCHES))
    assert guard.memory.latch is not None
    assert guard.memory.latch.state is S.LOCKOUT
    guard.acknowledge(reset_ns=guard.now_ns + 10 * MS)
    assert guard.state() is S.RECOVERY
    guard.armed().tick(C.ESTOP)
    assert guard.state() is S.SAFE


def test_another_cause_and_a_lockout_of_a_latch_are_no_latch_more() -> None:
    guard = Guard().latched(C.ESTOP)
    guard.tick(C.ESTOP, C.WORKER_DEAD)
    guard.tick(C.ESTOP, C.WORKER_DEAD, C.SLOT_DAMAGED)
    assert guard.state() is S.SAFE
    assert len(guard.memory.latches_ns) == 1


@pytest.mark.parametrize(("gap_ms", "state"), [(599_990, S.LOCKOUT), (600_000, S.SAFE)])
def test_latches_are_forgotten_after_their_window(gap_ms: int, state: State) -> None:
    guard = Guard().latched()
    first_ns = guard.now_ns
    guard.acknowledge()
    guard.armed().tick(C.ESTOP)
    guard.acknowledge()
    guard.armed()
    guard.tick(ms=first_ns // MS + gap_ms - guard.now_ns // MS - 10)
    guard.tick(C.ESTOP)
    assert guard.now_ns == first_ns + gap_ms * MS
    assert guard.state() is state


def test_recovery_that_does_not_become_well_latches_anew() -> None:
    guard = Guard().latched()
    first = guard.latch_id
    guard.acknowledge(C.SOURCE_DARK)
    guard.run(59_990, C.SOURCE_DARK)
    assert guard.state() is S.RECOVERY
    guard.tick(C.SOURCE_DARK)
    assert guard.state() is S.SAFE
    assert guard.latch_id != first
    assert guard.changes[-1].causes == mask_of((C.SOURCE_DARK, C.START_TIMEOUT))


def test_in_recovery_nothing_starts_any_more_so_that_what_is_not_evaluated_counts() -> None:
    guard = Guard().latched()
    guard.acknowledge()
    guard.tick(unknown=(C.SLOT_DAMAGED,))
    assert guard.state() is S.SAFE


def test_a_condition_that_got_worse_in_safe_has_to_clear_too() -> None:
    guard = Guard().latched()
    guard.run(1_900, C.POSE_STALE)
    guard.acknowledge(C.POSE_STALE)
    assert guard.state() is S.RECOVERY
    guard = Guard().latched()
    guard.run(2_000, unknown=(C.POSE_STALE,))
    guard.acknowledge(unknown=(C.POSE_STALE,))
    assert refusal(guard) == "these are not clear: pose_stale"
    assert guard.memory.latch is not None
    assert guard.memory.latch.causes == C.WORKER_DEAD.mask


def test_the_causes_of_a_latch_have_to_be_clear_for_their_clear_time() -> None:
    guard = Guard().armed().run(5_000, C.BATTERY_MISSING)
    assert guard.state() is S.SAFE
    guard.run(990)
    guard.acknowledge()
    assert refusal(guard) == "these are not clear: battery_missing"
    guard.run(20)
    guard.acknowledge()
    assert guard.state() is S.RECOVERY


def test_a_cause_that_does_not_latch_by_itself_has_to_be_clear_too() -> None:
    """Three turns for the worse latched, and what turned is among the causes."""
    guard = Guard().armed()
    for _ in range(3):
        guard.tick(C.EVENT_LATE)
        guard.run(2_010)
    assert guard.state() is S.SAFE
    guard.acknowledge(C.EVENT_LATE)
    assert refusal(guard) == "these are not clear: event_late"
