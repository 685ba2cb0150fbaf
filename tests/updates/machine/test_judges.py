"""Probation and shadow: tables of what passes, what fails and why, and what has to be waited for."""

from dataclasses import replace
from typing import Any

import pytest

from edge_runtime.protocol.release import ProbationTerms, ShadowTerms
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine.observed import Device, InUse, Shadowed
from edge_runtime.updates.machine.probation import judge_probation
from edge_runtime.updates.machine.shadow import judge_shadow
from edge_runtime.updates.machine.work import Before

TERMS = ProbationTerms()
BEFORE = Before(
    process="p", guard="g", seconds=3600, frames=36_000, events=360, latency_p95_ms=20, celsius=50
)
WELL = InUse(
    release=None,
    process="p",
    seconds=300,
    frames=3000,
    events=30,
    latency_p95_ms=22,
    celsius=52,
)
DEVICE = Device(guard="g")
C = UpdateCode


def judged(
    before: dict[str, Any] | None = None, age_s: float = 300, *, same_boot: bool = True, **now: Any
) -> UpdateCode | bool | None:
    """The code, True for well, None for not yet."""
    device = now.pop("device", DEVICE)
    terms = now.pop("terms", TERMS)
    verdict = judge_probation(
        terms,
        BEFORE.model_copy(update=before or {}),
        replace(WELL, **now),
        device,
        age_s,
        same_boot=same_boot,
    )
    return verdict.code or (True if verdict.passed else None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"seconds": 299}, None),
        ({"frames": 99, "events": 1}, None),
        ({"frames": 99, "events": 1, "age_s": 7200}, C.PROBATION_NO_DATA),
        ({"frames": 0, "events": 0, "seconds": 7300, "age_s": 7300}, C.PROBATION_NO_DATA),
        ({"process": "q"}, C.PROBATION_CRASH),
        ({"process": "q", "same_boot": False}, True),
        ({"process": "q", "device": Device(guard="h")}, True),
        ({"device": Device(guard="g", trip_ages_s=(10.0,))}, C.PROBATION_GUARD),
        ({"device": Device(guard="g", trip_ages_s=(301.0,))}, True),
        ({"nonfinite": 1}, C.PROBATION_NONFINITE),
        ({"nonfinite": 1, "before": {"nonfinite": 12}}, True),
        ({"nonfinite": 9, "before": {"nonfinite": 12}}, C.PROBATION_NONFINITE),
        ({"unanswered": 140}, True),
        ({"unanswered": 160}, C.PROBATION_NONFINITE),
        ({"unanswered": 160, "before": {"unanswered": 1800}}, True),
        ({"latency_p95_ms": 29.9}, True),
        ({"latency_p95_ms": 30.1}, C.PROBATION_LATENCY),
        ({"latency_p95_ms": 30.1, "before": {"latency_p95_ms": None}}, True),
        ({"latency_p95_ms": 30.1, "frames": 90, "events": 1}, None),
        ({"latency_p95_ms": 26, "terms": ProbationTerms(max_latency_ms=25)}, C.PROBATION_LATENCY),
        ({"events": 150}, True),
        ({"events": 160}, C.PROBATION_EVENT_RATE),
        ({"events": 5}, C.PROBATION_EVENT_RATE),
        ({"events": 6}, True),
        ({"events": 0, "before": {"events": 12}}, True),
        ({"events": 19, "before": {"events": 0}}, True),
        ({"events": 20, "before": {"events": 0}}, C.PROBATION_EVENT_RATE),
        ({"events": 500, "before": {"seconds": 20.0, "frames": 0}}, True),
        ({"celsius": 65}, True),
        ({"celsius": 66}, C.PROBATION_THERMAL),
        ({"celsius": None, "device": Device(guard="g", celsius=70)}, C.PROBATION_THERMAL),
        ({"celsius": 99, "before": {"celsius": None}}, True),
    ],
)
def test_probation(changes: dict[str, Any], expected: UpdateCode | bool | None) -> None:
    assert judged(**changes) == expected


SHADOW = ShadowTerms()
AGREES = Shadowed(
    seconds=60,
    frames=600,
    running_objects=100,
    found=95,
    candidate_objects=100,
    confirmed=95,
    running_ms=20,
    candidate_ms=24,
)


def shadowed(
    age_s: float = 61, rise_c: float | None = 2, terms: ShadowTerms = SHADOW, **changes: Any
) -> UpdateCode | bool | None:
    verdict = judge_shadow(terms, replace(AGREES, **changes), age_s, rise_c, 15)
    return verdict.code or (True if verdict.passed else None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"seconds": 59}, None),
        ({"frames": 49}, None),
        ({"frames": 49, "age_s": 3600}, C.SHADOW_NO_DATA),
        ({"found": 49}, C.SHADOW_DISAGREES),
        ({"confirmed": 49}, C.SHADOW_DISAGREES),
        ({"found": 50, "confirmed": 50}, True),
        ({"running_objects": 0, "found": 0, "candidate_objects": 0, "confirmed": 0}, None),
        (
            {"running_objects": 0, "found": 0, "candidate_objects": 0, "confirmed": 0, "age_s": 3600},
            C.SHADOW_NO_DATA,
        ),
        ({"running_objects": 9, "found": 9, "candidate_objects": 9, "confirmed": 9}, None),
        ({"running_objects": 9, "found": 9, "candidate_objects": 9, "confirmed": 9, "age_s": 3600}, True),
        ({"running_objects": 0, "found": 0, "candidate_objects": 90, "confirmed": 0}, C.SHADOW_DISAGREES),
        ({"nonfinite": 1}, C.SHADOW_DISAGREES),
        ({"unanswered": 10}, True),
        ({"unanswered": 60}, C.SHADOW_DISAGREES),
        ({"frames": 0, "unanswered": 20, "seconds": 2}, C.SHADOW_DISAGREES),
        ({"candidate_ms": 40}, True),
        ({"candidate_ms": 41}, C.SHADOW_SLOW),
        ({"candidate_ms": 400, "running_ms": None}, None),
        ({"candidate_ms": 400, "running_ms": None, "age_s": 3600}, C.SHADOW_NO_DATA),
        ({"candidate_ms": None, "age_s": 3600}, C.SHADOW_NO_DATA),
        ({"rise_c": 15.5}, C.SHADOW_HOT),
        ({"rise_c": None}, True),
    ],
)
def test_shadow(changes: dict[str, Any], expected: UpdateCode | bool | None) -> None:
    assert shadowed(**changes) == expected


def test_frames_without_numbers_are_counted_as_they_were() -> None:
    told = judge_shadow(SHADOW, replace(AGREES, frames=100, nonfinite=7), 61, None, 15)
    assert told.text == "7 of 100 frames held values that are no numbers"
    told = judge_shadow(SHADOW, replace(AGREES, frames=40, unanswered=60), 61, None, 15)
    assert told.text == "60 of 100 frames got no answer, or none in numbers"
    told = judge_probation(TERMS, BEFORE, replace(WELL, nonfinite=3), DEVICE, 300, same_boot=True)
    assert told.text == "3 of 3000 frames held values that are no numbers"
