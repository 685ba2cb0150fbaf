"""The motion gate's beat says open or closed; the guard knows which of both it may be."""

import pytest

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.intent import CLOSED, OPEN, SLACK_NS, judge_intent
from edge_runtime.guard.slot import Beat

MASK = Condition.MOTION_GATE_MISMATCH.mask
UNTIL_NS = 1_000_000_000


def beat(stage: str, beat_ns: int) -> Beat:
    return Beat(
        sequence=1,
        pid=1,
        beat_ns=beat_ns,
        work_sequence=1,
        newest_capture_ns=None,
        deadline_ns=beat_ns + 1,
        evaluated=0,
        tripped=0,
        stage=stage,
    )


@pytest.mark.parametrize(
    ("stage", "after_ns", "tripped"),
    [
        (OPEN, 0, 0),
        (OPEN, SLACK_NS, 0),
        (OPEN, SLACK_NS + 1, MASK),
        (CLOSED, SLACK_NS + 1, 0),
    ],
)
def test_a_gate_that_is_open_after_the_permission(stage: str, after_ns: int, tripped: int) -> None:
    assert judge_intent([beat(stage, UNTIL_NS + after_ns)], UNTIL_NS) == (MASK, tripped)


def test_any_gate_counts_and_none_is_not_evaluated() -> None:
    late = UNTIL_NS + 2 * SLACK_NS
    assert judge_intent([beat(OPEN, late), beat(CLOSED, late)], UNTIL_NS) == (MASK, MASK)
    assert judge_intent([], UNTIL_NS) == (0, 0)
