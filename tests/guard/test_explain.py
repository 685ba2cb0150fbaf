"""The words: each of them is read by somebody at three in the morning."""

from typing import Any

import pytest

from edge_runtime.guard import explain
from edge_runtime.guard.conditions import BY_BIT, TRAITS, Condition, mask_of
from edge_runtime.guard.memory import Change, Inputs, State
from edge_runtime.guard.profile import EVERYTHING, from_json
from edge_runtime.guard.still import STILL
from tests.rigs.guard_bodies import CAMERA, Guard, profile_of

C, S = Condition, State


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            Change(0, S.INIT, S.INIT, 0, None),
            "INIT: the guard started, and nothing may move until it is armed",
        ),
        (Change(0, S.INIT, S.STANDBY, 0, None), "STANDBY, from INIT"),
        (
            Change(0, S.NOMINAL, S.STOPPED, mask_of((C.SOURCE_DARK, C.SOURCE_LATE)), None),
            (
                "STOPPED, from NOMINAL: a camera's picture is dark or black (source_dark); "
                "frames are too old when they are evaluated (source_late)"
            ),
        ),
        (
            Change(0, S.INIT, S.SAFE, C.ESTOP.mask, "0123456789ab"),
            "SAFE, latch 0123456789ab: the emergency stop is pressed (estop)",
        ),
        (
            Change(0, S.SAFE, S.LOCKOUT, C.CRASH_LOOP.mask, "0123456789ab"),
            "LOCKOUT, latch 0123456789ab: a worker ends again and again soon after its start (crash_loop)",
        ),
        (Change(0, S.STOPPED, S.NOMINAL, 0, None), "NOMINAL, from STOPPED"),
    ],
)
def test_a_change_of_state_is_told_with_its_causes(change: Change, sentence: str) -> None:
    assert explain.told(change) == sentence


def rows(**changes: Any) -> dict[str, tuple[str, str, str]]:
    return {
        name: (does, trips, clears) for name, does, trips, clears, _ in explain.table(profile_of(**changes))
    }


def test_the_table_says_of_each_condition_what_it_does_when_and_how_it_clears() -> None:
    table = explain.table(profile_of())
    assert [row[0] for row in table] == [condition.value for condition in BY_BIT]
    assert [row[4] for row in table] == [TRAITS[condition].text for condition in BY_BIT]
    found = rows()
    assert found["queue_near_full"] == ("told only", "after 1000 ms", "alone, when clear for 5000 ms")
    assert found["event_late"] == ("slower", "at once", "alone, when clear for 2000 ms")
    assert found["source_dark"] == ("stop", "after 500 ms", "alone, when clear for 1000 ms")
    assert found["worker_dead"] == ("SAFE, latched", "at once", "acknowledgement")
    assert found["battery_missing"] == (
        "SAFE, latched",
        "after 5000 ms",
        "acknowledgement, when clear for 1000 ms",
    )
    assert found["estop"] == ("SAFE, latched", "at once", "acknowledgement at standstill")
    assert found["config_changed"] == (
        "SAFE, latched", "at once", "reset at the machine, then acknowledgement",
    )  # fmt: skip
    assert found["crash_loop"] == ("LOCKOUT", "at once", "reset at the machine, then acknowledgement")
    assert found["inference_late"] == (
        "slower, after 2000 ms stop",
        "at once",
        "alone, when clear for 2000 ms",
    )
    assert found["pose_stale"] == (
        "slower, after 1500 ms SAFE, latched",
        "after 500 ms",
        "alone, when clear for 1000 ms; latched: acknowledgement",
    )
    assert found["repeated_latches"] == (
        "LOCKOUT", "found by the guard", "reset at the machine, then acknowledgement",
    )  # fmt: skip
    assert found["start_timeout"] == ("SAFE, latched", "found by the guard", "acknowledgement")


def test_the_table_says_what_a_profile_changed() -> None:
    found = rows(
        stopped={"returns": False},
        conditions={
            "map_stale": {"ignored": "there is none"},
            "link_lost": {"severity": "safe", "trip_ms": 1},
            "soc_hot": {"severity": "lockout"},
        },
    )
    assert found["map_stale"] == ("ignored", "never", "there is none")
    assert found["link_lost"] == ("SAFE, latched", "after 1 ms", "acknowledgement, when clear for 2000 ms")
    assert found["soc_hot"] == ("LOCKOUT", "after 2000 ms", "acknowledgement, when clear for 5000 ms")
    # this body may not move again by itself: what stops it latches
    assert found["source_dark"] == (
        "SAFE, latched",
        "after 500 ms",
        "acknowledgement, when clear for 1000 ms",
    )
    assert found["inference_late"] == (
        "slower, after 2000 ms SAFE, latched",
        "at once",
        "alone, when clear for 2000 ms; latched: acknowledgement",
    )
    assert found["crash_loop"][0] == "LOCKOUT"


def test_modes_say_what_they_need_and_where_they_lead() -> None:
    assert explain.modes(profile_of()) == [
        (
            "drive: limits full, needs camera, inference, pose; without camera it stops; "
            "without inference it stops; without pose crawl; when degraded slow"
        ),
        (
            "slow: limits half, needs camera, inference, pose; without camera it stops; "
            "without inference it stops; without pose it stops"
        ),
        "crawl: limits tenth, needs camera, inference; without camera it stops; without inference it stops",
    ]
    assert explain.modes(profile_of(modes={"stay": {"limits": "none"}})) == [
        "stay: limits none, needs nothing; when degraded it stops"
    ]


def test_what_each_state_waits_for() -> None:
    guard = Guard()

    def waits() -> str:
        return explain.waits_for(guard.memory, guard.profile)

    well = "everything evaluated and well for 1000 ms"
    assert waits() == well
    guard.stood_by()
    assert waits() == "a request to arm that is newer than the entry into STANDBY"
    guard.armed()
    assert waits() == "nothing"
    guard.tick(C.EVENT_LATE)
    assert waits() == "the conditions to clear"
    guard.tick(C.OUTPUT_NOT_FINITE)
    assert waits() == "everything evaluated and well for 5000 ms"
    guard.tick(C.ESTOP)
    assert waits() == (
        f"acknowledgement at standstill, naming the latch {guard.latch_id}, when its causes are clear"
    )
    guard.tick(C.CRASH_LOOP)
    assert waits() == (
        "reset at the machine, then acknowledgement, "
        f"naming the latch {guard.latch_id}, when its causes are clear"
    )
    guard.acknowledge(reset_ns=guard.now_ns + 1)
    assert guard.state() is S.RECOVERY
    assert waits() == well


def test_a_latch_whose_cause_clears_alone_waits_for_an_acknowledgement() -> None:
    guard = Guard(profile_of(conditions__event_late={"severity": "safe"})).armed()
    guard.tick(C.EVENT_LATE)
    assert explain.waits_for(guard.memory, guard.profile).startswith("acknowledgement, naming the latch")


def test_a_repeated_latch_waits_for_a_reset() -> None:
    guard = Guard(profile_of(conditions__event_late={"severity": "lockout"})).armed()
    guard.tick(C.EVENT_LATE)
    assert explain.waits_for(guard.memory, guard.profile).startswith("reset at the machine, then ack")


def test_the_page_shows_the_state_why_and_all_that_is_not_at_rest() -> None:
    guard = Guard(profile_of(CAMERA)).armed()

    def page(unknown: int = 0) -> list[str]:
        return explain.simulation_lines(
            guard.memory, Inputs(EVERYTHING & ~unknown, 0), guard.out, guard.profile
        )

    assert page() == ["state   NOMINAL", "permit  yes, limits none", "waits   for nothing"]
    guard.run(260, C.SOURCE_DARK)
    assert page() == [
        "state   NOMINAL",
        "permit  yes, limits none",
        "waits   for nothing",
        "        source_dark: 52 % of its budget",
    ]
    guard.tick(C.SOURCE_DARK, ms=239)
    assert page()[3] == "        source_dark: 99 % of its budget"
    guard.run(3_600)
    guard.run(260, C.SOURCE_DARK)
    guard.tick(C.SOURCE_DARK, C.EVENT_LATE, C.SLOT_DAMAGED)
    assert page(C.EVENT_LATE.mask) == [
        "state   SAFE",
        "permit  no, limits closed",
        f"waits   for acknowledgement, naming the latch {guard.latch_id}, when its causes are clear",
        f"latch   {guard.latch_id}: slot_damaged",
        "        source_dark: 54 % of its budget",
        "        slot_damaged: counts",
        "        event_late: counts, not evaluated",
    ]


def test_everything_about_one_condition() -> None:
    pose = explain.explained(C.POSE_STALE, profile_of())
    assert pose == explain.Explained(
        condition="pose_stale",
        text="the pose is too old or too uncertain",
        severity="degraded",
        does="slower, after 1500 ms SAFE, latched",
        trips="after 500 ms",
        trip_ms=500,
        clear_ms=1000,
        then="safe",
        then_ms=1500,
        clears="alone, when clear for 1000 ms; latched: acknowledgement",
        evaluated_by="monitor",
        not_evaluated_in=("crawl",),
        ignored=None,
    )
    assert all(type(time) is int for time in (pose.trip_ms, pose.clear_ms, pose.then_ms))
    estop = explain.explained(C.ESTOP, profile_of())
    assert (estop.then, estop.then_ms, estop.not_evaluated_in) == (None, None, ())
    assert (estop.severity, estop.evaluated_by) == ("safe", "motion-gate")


def test_what_is_ignored_or_found_by_the_guard_has_no_times() -> None:
    ignored = explain.explained(C.MAP_STALE, profile_of(conditions__map_stale={"ignored": "no map"}))
    assert (ignored.severity, ignored.ignored, ignored.not_evaluated_in) == ("healthy", "no map", ())
    assert (ignored.trip_ms, ignored.clear_ms, ignored.then_ms) == (None, None, None)
    history = explain.explained(C.REPEATED_LATCHES, profile_of())
    assert (history.severity, history.ignored, history.evaluated_by) == ("lockout", None, "guard")
    assert (history.trip_ms, history.not_evaluated_in) == (None, ())


def test_what_stops_a_body_that_may_not_move_again_by_itself_is_told_as_latching() -> None:
    profile = profile_of(stopped={"returns": False})
    assert explain.explained(C.SOURCE_DARK, profile).severity == "safe"
    late = explain.explained(C.INFERENCE_LATE, profile)
    assert (late.severity, late.then) == ("degraded", "safe")
    assert explain.explained(C.INFERENCE_LATE, profile_of()).then == "stopped"


def test_what_does_not_latch_on_a_body_is_left_alone() -> None:
    still = from_json(STILL)
    dead = explain.explained(C.WORKER_DEAD, still)
    assert (dead.severity, dead.clears) == ("degraded", "alone, when clear for 2000 ms")
    history = explain.explained(C.START_TIMEOUT, still)
    assert (history.severity, history.does, history.ignored) == ("healthy", "ignored", "nothing latches")


def test_each_condition_is_evaluated_by_one_worker_or_by_the_guard() -> None:
    by: dict[str, set[Condition]] = {}
    for condition in C:
        by.setdefault(explain.evaluated_by(condition), set()).add(condition)
    assert set(by) == {"perception", "outbox", "uplink", "monitor", "motion-gate", "guard"}
    assert by["outbox"] == {C.QUEUE_NEAR_FULL}
    assert by["uplink"] == {C.LINK_LOST}
    assert by["perception"] == {
        C.SOURCE_STALLED, C.SOURCE_DARK, C.SOURCE_FROZEN, C.SOURCE_LATE,
        C.INFERENCE_LATE, C.OUTPUT_NOT_FINITE, C.EVENT_LATE,
    }  # fmt: skip
    assert by["motion-gate"] == {
        C.MOTION_REFUSALS, C.UNAPPROVED_RISK, C.ESTOP, C.ESTOP_DISAGREES,
    }  # fmt: skip
    assert by["monitor"] == {
        C.DISK_NEARLY_FULL, C.MEMORY_PRESSURE, C.CLOCK_STEPPED, C.BATTERY_MISSING, C.BATTERY_FROZEN,
        C.BATTERY_LOW, C.BATTERY_CRITICAL, C.POSE_STALE, C.MAP_STALE, C.SOC_HOT, C.SOC_CRITICAL,
        C.SOC_THROTTLED, C.TEMPERATURE_UNKNOWN,
    }  # fmt: skip


def test_the_sum_of_a_stop() -> None:
    assert explain.stop(profile_of(), realtime=True) == (
        "1 m/s · (700 + 50 + 100) ms + 0.50 m + 0.2 m = 1.55 m of 2.00 m"
    )
    assert explain.stop(profile_of(), realtime=False) == (
        "1 m/s · (3·700 + 50 + 100) ms + 0.50 m + 0.2 m = 2.95 m of 2.00 m"
    )
    fast = profile_of(stopping__v_max_m_s=2.5, stopping__a_brake_m_s2=0.8)
    assert explain.stop(fast, realtime=True) == (
        "2.5 m/s · (700 + 50 + 100) ms + 3.91 m + 0.2 m = 6.23 m of 2.00 m"
    )
    assert (
        explain.stop(profile_of(CAMERA), realtime=True) == "this body does not travel: a stop takes no room"
    )


def test_a_condition_that_this_version_does_not_know_is_told_by_its_name() -> None:
    assert explain.meaning("estop") == f"{explain.explained(C.ESTOP, profile_of()).text} (estop)"
    assert explain.meaning("of_tomorrow") == "of_tomorrow"
