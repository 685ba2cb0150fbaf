"""The built-in profile of a body that cannot move: nothing latches it, and what is over is over."""

import json
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.guard import explain
from edge_runtime.guard.conditions import FROM_HISTORY, KILLING, REBOOTING, Condition, conditions_in, mask_of
from edge_runtime.guard.machine import start, step
from edge_runtime.guard.memory import Inputs, Record, State
from edge_runtime.guard.profile import EVERYTHING, from_json
from edge_runtime.guard.refusals import check
from edge_runtime.guard.severity import Severity
from edge_runtime.guard.still import STILL, still_body
from tests.rigs.guard_bodies import BOOT, MS, NONCE, Guard

C, S = Condition, State
PROFILES = [
    from_json(still_body(delivers=delivers, batteries=batteries))
    for delivers in (True, False)
    for batteries in (True, False)
]


def armed() -> Guard:
    guard = Guard(PROFILES[0]).run(8_000, every_ms=500)
    assert guard.state() is S.STANDBY
    guard.arm()
    assert guard.state() is S.NOMINAL
    return guard


def test_it_is_safe_without_a_real_time_schedule_too_and_can_be_written_down() -> None:
    for profile in PROFILES:
        assert check(profile, realtime=False) == []
        assert not profile.stopping.travels
        assert not profile.remembers
    assert json.loads(json.dumps(STILL)) == STILL == still_body()


def test_what_nobody_looks_at_is_ignored_and_all_else_counts() -> None:
    counted = {c.value for c in conditions_in(from_json(STILL).counted)}
    assert {"link_lost", "queue_near_full", "worker_dead", "source_frozen", "soc_critical"} <= counted
    assert not {"estop", "pose_stale", "battery_low"} & counted
    other = from_json(still_body(delivers=False, batteries=True)).counted
    assert other == from_json(STILL).counted & ~mask_of((C.LINK_LOST, C.QUEUE_NEAR_FULL)) | mask_of(
        (C.BATTERY_MISSING, C.BATTERY_FROZEN, C.BATTERY_LOW, C.BATTERY_CRITICAL)
    )
    for profile in PROFILES:
        assert all(
            rule.severity <= Severity.DEGRADED and rule.then is None for rule in profile.rules.values()
        )
        assert all(rule.clear_ns >= 1_000 * MS for rule in profile.rules.values())
        assert mask_of(dict(profile.ignored)) & FROM_HISTORY == FROM_HISTORY


TURNS = st.tuples(
    st.one_of(st.just(0), st.integers(0, (1 << 64) - 1)),  # tripped
    st.one_of(st.just(0), st.integers(0, (1 << 64) - 1)),  # not evaluated
    st.sampled_from(  # gap and lateness in ms, whether somebody disarms it; one draw, for each takes its time
        list(
            product(
                (0, 1, 10, 500, 3_000, 70_000, 10_000_000),
                (0, 0, 0, 300, 3_000),
                (False, False, False, True),
            )
        )
    ),
)


@settings(max_examples=400, deadline=None)
@given(profile=st.sampled_from(PROFILES), turns=st.lists(TURNS, min_size=1, max_size=60))
def test_no_combination_of_conditions_latches_it_and_well_seconds_lead_to_nominal(
    profile: object, turns: list[tuple[int, int, tuple[int, int, bool]]]
) -> None:
    found = next(one for one in PROFILES if one is profile)
    now_ns = 10_000 * MS
    memory, out = start(now_ns, boot_id=BOOT, nonce=NONCE, found=Record(None, (), BOOT), profile=found)
    well = [(0, 0, (1_000, 0, False))] * 30
    for tripped, unknown, (gap_ms, late_ms, disarm) in [*turns, *well]:
        now_ns += gap_ms * MS
        inputs = Inputs(
            evaluated=EVERYTHING & ~unknown,
            tripped=tripped,
            late_ns=late_ms * MS,
            arm_ns=now_ns,
            disarm=disarm,
            suspects=("perception",),
        )
        memory, out = step(now_ns, memory, inputs, found)
        assert memory.latch is None
        assert memory.state in (S.INIT, S.STANDBY, S.NOMINAL, S.DEGRADED)
        assert out.record is None
        assert len(memory.turns_ns) <= 1
        assert memory.latches_ns == ()
    assert (memory.state, memory.mode.name) == (S.NOMINAL, "watching")


def test_a_start_ends_in_nominal_and_not_in_degraded_first() -> None:
    guard = Guard(PROFILES[0])
    guard.run(20_000, every_ms=100, unknown=tuple(conditions_in(PROFILES[0].counted)))
    assert guard.state() is S.INIT
    for _ in range(80):
        guard.tick(ms=100, arm_ns=guard.now_ns + 100 * MS)
    assert [change.after for change in guard.changes] == [S.INIT, S.STANDBY, S.NOMINAL]


def test_a_camera_that_flaps_all_night_is_degraded_again_and_again_and_well_in_the_morning() -> None:
    guard = armed()
    for _ in range(100):
        guard.run(1_000, C.SOURCE_STALLED, every_ms=100)
        assert (guard.state(), guard.out.limits) == (S.DEGRADED, "none")
        guard.run(2_500, every_ms=100)
        assert guard.state() is S.NOMINAL


def test_a_worker_that_hangs_is_killed_here_as_well_and_one_that_cannot_be_killed_reboots_the_machine() -> (
    None
):
    for condition in conditions_in(KILLING):
        guard = armed()
        assert guard.tick(condition, suspects=("perception",)).kills == ("perception",)
        assert guard.state() is S.DEGRADED
    for condition in conditions_in(REBOOTING):
        assert not armed().tick(condition).feed


def test_it_is_explained() -> None:
    told = {row[0]: row[1:4] for row in explain.table(PROFILES[0])}
    assert told["worker_dead"] == ("slower", "at once", "alone, when clear for 2000 ms")
    assert told["repeated_trips"] == ("ignored", "never", "nothing latches")
