"""Events in words."""

from typing import Any

import pytest

from edge_runtime.annotation import event_caption
from tests.annotation.conftest import MakeEvent


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"direction": "enter", "label": "face", "track": 4}, "1.0 s bay enter face #4"),
        ({"direction": "left_to_right"}, "1.0 s bay left to right"),
        ({"rule": "nobody"}, "1.0 s nobody started"),
        ({"state": "ended", "duration_s": 7.04}, "1.0 s bay ended after 7.0 s"),
        ({"state": "interrupted"}, "1.0 s bay interrupted"),
        ({"count": 3, "late": True}, "1.0 s bay started x3 (late)"),
    ],
)
def test_a_caption_says_when_which_rule_and_what(
    make_event: MakeEvent, fields: dict[str, Any], words: str
) -> None:
    assert event_caption(make_event(**fields)) == words
