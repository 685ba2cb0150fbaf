"""The catalogue: closed, complete, and with bits that stay what they are."""

import pytest

from edge_runtime.guard.conditions import (
    AGED,
    BY_BIT,
    FROM_HISTORY,
    FROM_LATENESS,
    KILLING,
    REBOOTING,
    TRAITS,
    WIDTH,
    Condition,
    conditions_in,
    mask_of,
)
from edge_runtime.guard.severity import Clears, Judge, Need, Optional, Severity

C, S, N = Condition, Severity, Need
ALONE, ACK, STILL, RESET = Clears.ALONE, Clears.ACK, Clears.ACK_AT_STANDSTILL, Clears.RESET_AND_ACK
MILDER, ON_STILL, ALWAYS = Optional.MILDER_ON_STILL_BODY, Optional.ON_STILL_BODY, Optional.ALWAYS

# bit, condition, severity, trips after ms, clear for ms, clears, optional. Bits are on disk and on the wire: a row
# may be added at the end, and none may be given another bit.
CATALOGUE = [
    (0, C.WORKER_DEAD, S.SAFE, 0, 0, ACK, MILDER),
    (1, C.WORKER_HUNG, S.SAFE, 0, 0, ACK, MILDER),
    (2, C.WORKER_START_TIMEOUT, S.SAFE, 0, 0, ACK, MILDER),
    (3, C.WORKER_STARVED, S.DEGRADED, 100, 2000, ALONE, MILDER),
    (4, C.WORKER_UNKILLABLE, S.LOCKOUT, 0, 0, RESET, MILDER),
    (5, C.CRASH_LOOP, S.LOCKOUT, 0, 0, RESET, MILDER),
    (6, C.SLOT_DAMAGED, S.SAFE, 0, 0, ACK, MILDER),
    (7, C.GUARD_LATE, S.DEGRADED, 100, 2000, ALONE, MILDER),
    (8, C.GUARD_PAUSED, S.STOPPED, 0, 1000, ALONE, MILDER),
    (9, C.SOURCE_STALLED, S.STOPPED, 150, 1000, ALONE, ALWAYS),
    (10, C.SOURCE_DARK, S.STOPPED, 500, 1000, ALONE, ALWAYS),
    (11, C.SOURCE_FROZEN, S.STOPPED, 150, 1000, ALONE, ALWAYS),
    (12, C.SOURCE_LATE, S.STOPPED, 150, 1000, ALONE, ALWAYS),
    (13, C.INFERENCE_LATE, S.DEGRADED, 0, 2000, ALONE, ON_STILL),
    (14, C.OUTPUT_NOT_FINITE, S.STOPPED, 0, 2000, ALONE, ALWAYS),
    (15, C.EVENT_LATE, S.DEGRADED, 0, 2000, ALONE, ALWAYS),
    (16, C.QUEUE_NEAR_FULL, S.WARN, 1000, 5000, ALONE, ALWAYS),
    (17, C.DISK_NEARLY_FULL, S.WARN, 1000, 5000, ALONE, ALWAYS),
    (18, C.MEMORY_PRESSURE, S.DEGRADED, 1000, 5000, ALONE, ALWAYS),
    (19, C.CLOCK_STEPPED, S.WARN, 0, 10000, ALONE, ALWAYS),
    (20, C.CONFIG_CHANGED, S.SAFE, 0, 0, RESET, MILDER),
    (21, C.MOTION_GATE_MISMATCH, S.SAFE, 30, 0, STILL, ON_STILL),
    (22, C.MOTION_REFUSALS, S.SAFE, 0, 0, ACK, ON_STILL),
    (23, C.UNAPPROVED_RISK, S.SAFE, 0, 0, STILL, ON_STILL),
    (24, C.ESTOP, S.SAFE, 0, 0, STILL, ON_STILL),
    (25, C.ESTOP_DISAGREES, S.SAFE, 20, 0, STILL, ON_STILL),
    (26, C.LINK_LOST, S.DEGRADED, 5000, 2000, ALONE, ALWAYS),
    (27, C.BATTERY_MISSING, S.SAFE, 5000, 1000, ACK, ALWAYS),
    (28, C.BATTERY_FROZEN, S.SAFE, 5000, 1000, ACK, ALWAYS),
    (29, C.BATTERY_LOW, S.DEGRADED, 2000, 5000, ALONE, ALWAYS),
    (30, C.BATTERY_CRITICAL, S.SAFE, 2000, 5000, ACK, ALWAYS),
    (31, C.POSE_STALE, S.DEGRADED, 500, 1000, ALONE, ALWAYS),
    (32, C.MAP_STALE, S.DEGRADED, 500, 1000, ALONE, ALWAYS),
    (33, C.SOC_HOT, S.DEGRADED, 2000, 5000, ALONE, ALWAYS),
    (34, C.SOC_CRITICAL, S.SAFE, 1000, 5000, ACK, MILDER),
    (35, C.SOC_THROTTLED, S.DEGRADED, 2000, 5000, ALONE, ALWAYS),
    (36, C.TEMPERATURE_UNKNOWN, S.DEGRADED, 5000, 2000, ALONE, ALWAYS),
    (37, C.START_TIMEOUT, S.SAFE, 0, 0, ACK, ON_STILL),
    (38, C.REPEATED_TRIPS, S.SAFE, 0, 0, ACK, ON_STILL),
    (39, C.REPEATED_LATCHES, S.LOCKOUT, 0, 0, RESET, ON_STILL),
    (40, C.LATCH_UNKNOWN, S.SAFE, 0, 0, ACK, ON_STILL),
    (41, C.STOPPED_TOO_LONG, S.SAFE, 0, 0, ACK, ON_STILL),
]

WORSE = {
    C.WORKER_STARVED: (S.SAFE, 3000),
    C.GUARD_LATE: (S.SAFE, 2000),
    C.INFERENCE_LATE: (S.STOPPED, 2000),
    C.POSE_STALE: (S.SAFE, 1500),
    C.MAP_STALE: (S.SAFE, 1500),
}

TAKES = {
    C.SOURCE_STALLED: N.CAMERA,
    C.SOURCE_DARK: N.CAMERA,
    C.SOURCE_FROZEN: N.CAMERA,
    C.SOURCE_LATE: N.CAMERA,
    C.OUTPUT_NOT_FINITE: N.INFERENCE,
    C.LINK_LOST: N.LINK,
    C.BATTERY_MISSING: N.BATTERY,
    C.BATTERY_FROZEN: N.BATTERY,
    C.POSE_STALE: N.POSE,
    C.MAP_STALE: N.MAP,
    C.TEMPERATURE_UNKNOWN: N.TEMPERATURE,
}


def test_the_catalogue_is_this_one() -> None:
    rows = [
        (
            traits.bit,
            condition,
            traits.severity,
            traits.trip_ms,
            traits.clear_ms,
            traits.clears,
            traits.optional,
        )
        for condition, traits in TRAITS.items()
    ]
    assert rows == CATALOGUE
    assert {c: (t.then, t.then_ms) for c, t in TRAITS.items() if t.then is not None or t.then_ms} == WORSE
    assert {c: t.takes for c, t in TRAITS.items() if t.takes is not None} == TAKES


def test_every_condition_has_a_bit_of_its_own_within_64_and_a_sentence() -> None:
    assert set(TRAITS) == set(Condition)
    assert [condition.bit for condition in BY_BIT] == list(range(WIDTH))
    assert WIDTH <= 64
    texts = [traits.text for traits in TRAITS.values()]
    assert len(set(texts)) == WIDTH
    assert all(text and text[0].islower() and not text.endswith(".") for text in texts)
    assert all(condition.value == condition.name.lower() for condition in Condition)


def test_what_latches_does_not_clear_alone_and_what_only_warns_does() -> None:
    for condition, traits in TRAITS.items():
        assert (traits.clears is Clears.ALONE) is (traits.severity < Severity.SAFE), condition
        assert traits.then is None or traits.then > traits.severity


def test_masks_go_both_ways() -> None:
    some = (C.WORKER_DEAD, C.ESTOP, C.STOPPED_TOO_LONG)
    assert mask_of(some) == 1 | 1 << 24 | 1 << 41
    assert tuple(conditions_in(mask_of(some))) == some
    assert list(conditions_in(0)) == []
    assert list(conditions_in(1 << WIDTH)) == []
    assert mask_of(()) == 0
    assert [condition.mask for condition in BY_BIT] == [1 << bit for bit in range(WIDTH)]


@pytest.mark.parametrize(
    ("mask", "conditions"),
    [
        (
            AGED,
            """worker_hung worker_start_timeout source_stalled source_late inference_late event_late
            battery_missing battery_frozen pose_stale map_stale""",
        ),
        (FROM_HISTORY, "start_timeout repeated_trips repeated_latches latch_unknown stopped_too_long"),
        (FROM_LATENESS, "guard_late guard_paused"),
        (KILLING, "worker_dead worker_hung worker_start_timeout"),
        (REBOOTING, "worker_unkillable"),
    ],
)
def test_special_masks(mask: int, conditions: str) -> None:
    assert [condition.value for condition in conditions_in(mask)] == conditions.split()


def test_who_judges() -> None:
    judged = {judge: mask_of(c for c, t in TRAITS.items() if t.judge is judge) for judge in Judge}
    assert judged[Judge.HISTORY] == FROM_HISTORY
    assert judged[Judge.LATENESS] == FROM_LATENESS
