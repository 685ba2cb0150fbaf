"""Whether the motion gate is in the state that the guard asked for: its beat carries what it does."""

from collections.abc import Iterable

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.slot import Beat

OPEN, CLOSED = "open", "closed"
"""Stages of the motion gate's beats."""

SLACK_NS = 20_000_000
"""A gate that is preempted between its look at the lease and its beat shows an older look so much later at most."""

_MASK = Condition.MOTION_GATE_MISMATCH.mask


def judge_intent(beats: Iterable[Beat], until_ns: int) -> tuple[int, int]:
    """Judge motion gates by their newest beats.

    Args:
        beats: of those that beat; where none does, nothing is evaluated.
        until_ns: until when the guard last permitted anything.

    Returns:
        Masks of what was evaluated and of what holds.
    """
    evaluated = tripped = 0
    for beat in beats:
        evaluated = _MASK
        if beat.stage == OPEN and beat.beat_ns > until_ns + SLACK_NS:
            tripped = _MASK
    return evaluated, tripped
