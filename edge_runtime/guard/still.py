"""The profile of a body that cannot move, such as a camera on a wall, for devices that name no profile.

Nothing latches: there is nothing that a person would have to look at before it may go on, and nobody to look. What
goes wrong is told, as DEGRADED or as a warning, and is over when it is over.
"""

from typing import Any

from edge_runtime.guard.conditions import FROM_HISTORY, TRAITS, Condition, conditions_in
from edge_runtime.guard.profile import EVERYTHING
from edge_runtime.guard.severity import Severity

_C = Condition

_WARNED = (
    # of a busy machine: what suffers from it has conditions of its own
    *(_C.WORKER_STARVED, _C.GUARD_LATE, _C.GUARD_PAUSED),
    # a camera works without a link for as long as its queue holds, and many machines have no sensor of heat
    *(_C.LINK_LOST, _C.TEMPERATURE_UNKNOWN),
)
"""What is told and changes no state."""

_CLEAR_MS = 2_000
"""What clears at once in the catalogue, where a latch follows, would flap here."""


def still_body(*, delivers: bool = True, batteries: bool = False) -> dict[str, Any]:
    """A profile, as `profile.from_json` reads it.

    Args:
        delivers: whether the device has an outbox and an uplink, which say how these do.
        batteries: whether it has batteries, and a monitor that looks at them.
    """
    ignored = {
        _C.MOTION_GATE_MISMATCH: "nothing moves",
        _C.MOTION_REFUSALS: "nothing moves",
        _C.UNAPPROVED_RISK: "nothing moves",
        _C.ESTOP: "nothing moves",
        _C.ESTOP_DISAGREES: "nothing moves",
        _C.POSE_STALE: "nothing moves",
        _C.MAP_STALE: "nothing moves",
    }
    if not delivers:
        ignored |= dict.fromkeys((_C.QUEUE_NEAR_FULL, _C.LINK_LOST), "nothing is delivered")
    if not batteries:
        ignored |= dict.fromkeys(
            (_C.BATTERY_MISSING, _C.BATTERY_FROZEN, _C.BATTERY_LOW, _C.BATTERY_CRITICAL),
            "no battery is named",
        )
    ignored |= dict.fromkeys(conditions_in(FROM_HISTORY), "nothing latches")
    conditions: dict[str, Any] = {condition.value: {"ignored": why} for condition, why in ignored.items()}
    for condition in conditions_in(EVERYTHING):
        if condition not in ignored:
            conditions[condition.value] = _rule(condition)
    return {
        "name": "still",
        # Two modes with the same limits: DEGRADED is a state that is seen, and left again.
        "modes": {"watching": {"limits": "none", "slower": "impaired"}, "impaired": {"limits": "none"}},
        "conditions": conditions,
        # Longer than what nobody evaluated yet takes to be clear: otherwise each start would end in DEGRADED first.
        "settle_ms": 5_500,
        # No lease opens anything here, so that lateness matters only where it shows that the machine is stuck.
        "late_ms": 200,
        "paused_ms": 2_000,
        "lease_ms": 1_000,
        "stopping": {
            "v_max_m_s": 0,
            "a_brake_m_s2": 1,
            "t_detect_ms": 0,
            "t_gate_ms": 0,
            "t_act_ms": 0,
            "margin_m": 0,
            "free_range_m": 0,
        },
    }


def _rule(condition: Condition) -> dict[str, Any]:
    traits = TRAITS[condition]
    severity = Severity.WARN if condition in _WARNED else min(traits.severity, Severity.DEGRADED)
    return {
        "severity": severity.name.lower(),
        "worsens": False,
        "clear_ms": max(traits.clear_ms, _CLEAR_MS),
    }


STILL = still_body()
"""Of a device that delivers, and has no battery."""
