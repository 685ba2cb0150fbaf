"""Hypothesis over all combinations of conditions, requests and times: what holds in each of them."""

from dataclasses import dataclass
from math import prod
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.guard.conditions import BY_BIT, TRAITS, WIDTH, Condition, conditions_in
from edge_runtime.guard.fallback import mode_without
from edge_runtime.guard.machine import start, step
from edge_runtime.guard.memory import (
    CLOSED,
    LATCHED,
    PERMITTING,
    Acknowledgement,
    Inputs,
    Memory,
    Record,
    State,
)
from edge_runtime.guard.profile import EVERYTHING, Profile
from edge_runtime.guard.severity import Judge, Severity
from tests.rigs.guard_bodies import BOOT, CAMERA, MS, NONCE, Guard, profile_of

S = State
PROFILES = (
    profile_of(),
    profile_of(stopped__returns=False),
    profile_of(CAMERA),
    # short times, so that a few turns reach everything
    profile_of(settle_ms=1, start_ms=2_000, stopped__healthy_ms=1, stopped__longest_ms=500),
)

ALL = (1 << WIDTH) - 1
ANY_MASK = st.integers(min_value=0, max_value=ALL)
# three at most; the number after the last condition is none
FEW = st.sampled_from(range((WIDTH + 1) ** 3)).map(
    lambda number: (1 << number % (WIDTH + 1)
        | 1 << number // (WIDTH + 1) % (WIDTH + 1) | 1 << number // (WIDTH + 1) ** 2) & ALL
)  # fmt: skip
TRIPPED = st.one_of(st.just(0), st.just(0), st.just(0), FEW, ANY_MASK)
UNKNOWN = st.one_of(st.just(0), st.just(0), st.just(0), FEW, ANY_MASK)


@dataclass(frozen=True)
class Turn:
    """What comes in one turn; requests are dated relative to it."""

    tripped: int
    unknown: int
    gap_ms: int
    late_ms: int
    standstill: bool | None
    arm_ms: int | None
    disarm: bool
    ack: str | None
    ack_ms: int
    reset_ms: int | None


CHOICES: dict[str, tuple[Any, ...]] = {
    "gap_ms": (0, 1, 10, 500, 2_000, 70_000),
    "late_ms": (0, 0, 0, 0, 6, 200),
    "standstill": (True, True, False, None),
    "arm_ms": (None, 0, 0, -1, 5),
    "disarm": (False, False, False, True),
    "ack": (None, None, "right", "right", "right", "wrong"),
    "ack_ms": (0, 0, -5_000, 5),
    "reset_ms": (None, 0, 0, -5_000, 5),
}


def turn_of(number: int, tripped: int, unknown: int) -> Turn:
    """One of all turns by its number: a draw for each field takes far longer than the guard's step."""
    chosen = {}
    for name, choices in CHOICES.items():
        number, at = divmod(number, len(choices))
        chosen[name] = choices[at]
    return Turn(tripped, unknown, **chosen)


ALL_TURNS = range(prod(len(choices) for choices in CHOICES.values()))
TURNS = st.builds(turn_of, st.sampled_from(ALL_TURNS), TRIPPED, UNKNOWN)
# healthy turns with the right requests, so that each state is reached by chance too
WELL = Turn(0, 0, 500, 0, True, 0, False, "right", 0, 0)
WAYS = st.lists(st.one_of(st.just(WELL), TURNS), min_size=1, max_size=40)
FOUND = st.sampled_from((Record(None, (), BOOT), Record(None, (1,), BOOT), None))


def inputs_of(turn: Turn, now_ns: int, memory: Memory) -> Inputs:
    ack = None
    if turn.ack is not None:
        right = memory.latch.id if memory.latch else "none"
        ack = Acknowledgement(right if turn.ack == "right" else "wrong", now_ns + turn.ack_ms * MS)
    return Inputs(
        evaluated=EVERYTHING & ~turn.unknown,
        tripped=turn.tripped,
        late_ns=turn.late_ms * MS,
        standstill=turn.standstill,
        arm_ns=None if turn.arm_ms is None else now_ns + turn.arm_ms * MS,
        disarm=turn.disarm,
        ack=ack,
        reset_ns=None if turn.reset_ms is None else now_ns + turn.reset_ms * MS,
        suspects=("perception",),
    )


@settings(max_examples=400, deadline=None)
@given(profile=st.sampled_from(PROFILES), found=FOUND, turns=WAYS)
def test_no_way_leads_from_safe_to_motion_without_an_acknowledgement_and_a_request_to_arm(
    profile: Profile, found: Record | None, turns: list[Turn]
) -> None:
    now_ns = 10_000 * MS
    memory, out = start(now_ns, boot_id=BOOT, nonce=NONCE, found=found, profile=profile)
    assert not out.permit
    acknowledged = armed = found is not None and found.latch is None
    armed = False
    for turn in turns:
        now_ns += turn.gap_ms * MS
        inputs = inputs_of(turn, now_ns, memory)
        before = memory
        memory, out = step(now_ns, memory, inputs, profile)
        # the model: what an outsider knows of the latch and of the permission
        if before.state in LATCHED and memory.state is S.RECOVERY:
            assert before.latch is not None
            assert inputs.ack is not None
            assert inputs.ack.latch_id == before.latch.id
            assert before.latch.since_ns < inputs.ack.received_ns <= now_ns
            assert not inputs.tripped & before.latch.causes & profile.counted
            if before.state is S.LOCKOUT:
                assert inputs.reset_ns is not None
            if profile.stopping.travels:
                assert inputs.standstill is True
            acknowledged = True
        if before.state is S.STANDBY and memory.state in PERMITTING:
            assert inputs.arm_ns is not None
            assert before.entered_ns < inputs.arm_ns <= now_ns
            armed = True
        if memory.state in LATCHED:
            acknowledged = armed = False
        if memory.state is S.STANDBY:
            armed = False
        if out.permit:
            assert acknowledged
            assert armed
        holds_everywhere(before, memory, inputs, out, now_ns, profile)


def holds_everywhere(
    before: Memory, memory: Memory, inputs: Inputs, out: Any, now_ns: int, profile: Profile
) -> None:
    assert out.permit is (memory.state in PERMITTING and inputs.late_ns <= profile.late_ns)
    assert out.flush is (memory.state not in PERMITTING)
    assert (out.limits == CLOSED) is (memory.state not in PERMITTING)
    assert (memory.latch is not None) is (memory.state in LATCHED)
    assert (out.record is not None) is (memory.latch != before.latch)
    if out.record is not None:
        assert (out.record.latch, out.record.latches_ns) == (memory.latch, memory.latches_ns)
    assert len(out.changes) <= 1
    if memory.state is not before.state:
        (change,) = out.changes
        assert (change.before, change.after, change.at_ns) == (before.state, memory.state, now_ns)
        assert memory.entered_ns == now_ns
        assert memory.state in REACHES[before.state]
    elif out.changes:
        assert memory.latch != before.latch
    # all that a guard remembers is bounded
    assert len(memory.timers) <= WIDTH
    assert len(memory.turns_ns) < profile.trips_max
    assert len(memory.latches_ns) <= profile.latches_max
    # what is critical and trips at once never leaves a permission, whether it holds or is not evaluated
    critical = profile.counted & (inputs.tripped | ~inputs.evaluated) & profile.stopping_conditions
    for condition in conditions_in(critical):
        rule, traits = profile.rules[condition.bit], TRAITS[condition]
        if rule.trip_ns == 0 and traits.judge is Judge.RUNTIME and not (rule.aged and inputs.late_ns):
            assert not out.permit


REACHES = {
    S.INIT: {S.STANDBY, S.SAFE, S.LOCKOUT},
    S.STANDBY: {S.NOMINAL, S.DEGRADED, S.SAFE, S.LOCKOUT},
    S.NOMINAL: {S.DEGRADED, S.STOPPED, S.SAFE, S.LOCKOUT, S.STANDBY},
    S.DEGRADED: {S.NOMINAL, S.STOPPED, S.SAFE, S.LOCKOUT, S.STANDBY},
    S.STOPPED: {S.NOMINAL, S.DEGRADED, S.SAFE, S.LOCKOUT, S.STANDBY},
    S.SAFE: {S.RECOVERY, S.LOCKOUT},
    S.RECOVERY: {S.STANDBY, S.SAFE, S.LOCKOUT},
    S.LOCKOUT: {S.RECOVERY},
}


def expected(mask: int, profile: Profile, held_ms: int) -> tuple[State, str]:
    """Where a constant mask leads out of NOMINAL: written anew from the catalogue, without the machine."""
    worst = Severity.HEALTHY
    lost = set()
    for condition in BY_BIT:
        traits = TRAITS[condition]
        if not mask & condition.mask or traits.judge is not Judge.RUNTIME or traits.trip_ms > held_ms:
            continue
        severity = traits.severity
        if traits.then is not None and held_ms >= max(10, traits.trip_ms) + traits.then_ms:
            severity = traits.then
        if severity is Severity.DEGRADED and traits.takes is not None:
            lost.add(traits.takes)
        worst = max(worst, severity)
    if worst <= Severity.DEGRADED:
        mode = mode_without(profile, lost, degraded=worst is Severity.DEGRADED)
        assert mode is not None
        return (S.DEGRADED if worst is Severity.DEGRADED else S.NOMINAL), mode.limits
    return {Severity.STOPPED: S.STOPPED, Severity.SAFE: S.SAFE, Severity.LOCKOUT: S.LOCKOUT}[worst], CLOSED


# every mode evaluates everything here, so that all gets worse when its time comes
ALL_EVALUATED = profile_of(modes__crawl__not_evaluated=[])


@settings(max_examples=300, deadline=None)
@given(
    tripped=st.one_of(FEW, ANY_MASK),
    unknown=st.one_of(st.just(0), FEW, ANY_MASK),
    held_ms=st.sampled_from((10, 20, 90, 100, 150, 500, 2_000, 3_100)),
)
def test_any_combination_leads_to_the_worst_that_it_holds(tripped: int, unknown: int, held_ms: int) -> None:
    guard = Guard(ALL_EVALUATED).armed()
    names = tuple(conditions_in(tripped))
    guard.run(max(10, held_ms), *names, unknown=tuple(conditions_in(unknown)))
    state, limits = expected(tripped | unknown, ALL_EVALUATED, held_ms)
    if guard.memory.latch is not None and Condition.REPEATED_TRIPS.mask & guard.memory.latch.causes:
        state = S.SAFE  # two steps down and a third one
    assert guard.state() is state
    assert guard.out.limits == limits
    assert guard.out.permit is (state in PERMITTING)


@settings(max_examples=200, deadline=None)
@given(turns=WAYS)
def test_the_same_inputs_lead_to_the_same_memory(turns: list[Turn]) -> None:
    ends = []
    for _ in range(2):
        now_ns = 0
        memory, _ = start(now_ns, boot_id=BOOT, nonce=NONCE, found=None, profile=PROFILES[3])
        for turn in turns:
            now_ns += turn.gap_ms * MS
            memory, _ = step(now_ns, memory, inputs_of(turn, now_ns, memory), PROFILES[3])
        ends.append(memory)
    assert ends[0] == ends[1]
