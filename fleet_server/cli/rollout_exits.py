"""Exit codes that say how a rollout stands, or what became of it on one device, by what the server says."""

from collections.abc import Mapping
from typing import Any

from fleet_server.cli.commands import (
    EXIT_CANCELLED,
    EXIT_HALTED,
    EXIT_INCONCLUSIVE,
    EXIT_LEFT_BEHIND,
    EXIT_NO_VERDICT,
    EXIT_NOT_PART,
    EXIT_NOT_STARTED,
    EXIT_PAUSED,
    EXIT_REFUSED,
    EXIT_REVERTED,
    EXIT_ROLLED_BACK,
    EXIT_STUCK,
    EXIT_UNDER_WAY,
)

_ROLLOUTS = {
    "awaiting-approval": EXIT_NOT_STARTED,
    "ready": EXIT_NOT_STARTED,
    "running": EXIT_UNDER_WAY,
    "rolling-back": EXIT_UNDER_WAY,
    "paused": EXIT_PAUSED,
    "halted": EXIT_HALTED,
    "completed": 0,
    "cancelled": EXIT_CANCELLED,
}
_DEVICES = {
    "healthy": 0,
    "refused": EXIT_REFUSED,
    "reverted": EXIT_REVERTED,
    "stuck": EXIT_STUCK,
    "superseded": EXIT_NO_VERDICT,
    "withdrawn": EXIT_NO_VERDICT,
    "unreachable": EXIT_NO_VERDICT,
    "decommissioned": EXIT_NO_VERDICT,
}


def rollout_exit(view: Mapping[str, Any]) -> int:
    """How a rollout stands."""
    if view["state"] == "paused" and view["reason_code"] == "stage-inconclusive":
        return EXIT_INCONCLUSIVE
    if view["state"] == "rolled-back":
        back = view["rollback"].get("healthy", 0)
        all_back = not view["left"] and back == sum(view["rollback"].values())
        return EXIT_ROLLED_BACK if all_back else EXIT_LEFT_BEHIND
    return _ROLLOUTS[view["state"]]


def stands(view: Mapping[str, Any]) -> bool:
    """Whether nothing happens any more before a person acts: a watch ends there."""
    if view["needs"] is not None or view["state"] in (
        "completed",
        "rolled-back",
        "cancelled",
        "paused",
        "halted",
    ):
        return True
    return view["state"] == "ready" and (view["plan"] is None or view["plan"]["start_at_ms"] is None)


def way_exit(way: Mapping[str, Any]) -> int:
    """What became of a rollout on one device: its own verdict, not that of whoever asked."""
    state = way["membership"]["state"]
    if state is None:
        return 0 if way["has_it"] else EXIT_NOT_PART
    return _DEVICES.get(state, EXIT_UNDER_WAY)
