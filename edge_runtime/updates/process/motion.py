"""What the guard's status says to updates: whether the body may be moving, and what it was held for. Pure."""

from collections.abc import Mapping
from typing import Any

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.memory import State

_HELD = frozenset({State.STOPPED.value, State.SAFE.value, State.LOCKOUT.value})
_C = Condition

MAY_BE_ITS_DOING = frozenset(
    condition.value
    for condition in (
        _C.WORKER_DEAD,
        _C.WORKER_HUNG,
        _C.WORKER_START_TIMEOUT,
        _C.WORKER_STARVED,
        _C.CRASH_LOOP,
        _C.SLOT_DAMAGED,
        _C.GUARD_LATE,
        _C.SOURCE_LATE,
        _C.INFERENCE_LATE,
        _C.OUTPUT_NOT_FINITE,
        _C.EVENT_LATE,
        _C.MEMORY_PRESSURE,
        _C.SOC_HOT,
        _C.SOC_CRITICAL,
        _C.SOC_THROTTLED,
        _C.REPEATED_TRIPS,
        _C.REPEATED_LATCHES,
    )
)
"""Conditions that a model may bring about. An emergency stop, a battery or a lost link is not the model's doing."""


def moves(status: Mapping[str, Any] | None, *, may_move: bool) -> str | None:
    """Why the body may be moving, in a sentence; None where it does not.

    Args:
        status: as the guard told it; None where it did not answer.
        may_move: whether this body can move at all.
    """
    if not may_move:
        return None
    if status is None:
        return "the guard does not answer, so that nobody knows whether the robot moves"
    if status.get("permit") is False or status.get("standstill") is True:
        return None
    return "the robot is armed, and nobody says that it stands still"


def trip_ages_s(status: Mapping[str, Any] | None) -> tuple[float, ...]:
    """How long ago the guard held the body for a reason that a model may have given it."""
    changes = [] if status is None else status.get("changes", [])
    return tuple(
        change["ago_ms"] / 1000
        for change in changes
        if change.get("state") in _HELD and MAY_BE_ITS_DOING.intersection(change.get("causes", ()))
    )
