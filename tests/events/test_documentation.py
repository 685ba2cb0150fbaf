"""What docs/events.md shows is valid: its rules, its record, its lists of fields and kinds."""

import json
import re
from pathlib import Path

import pytest

from edge_runtime.document import read_document
from edge_runtime.events import EventDesk, Unobserved
from edge_runtime.protocol import EventRecord
from tests.rigs.events import CONFIG, LABELS, FakeClock, rule

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
RULES = [
    found
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    for found in read_document("rules:\n" + block).data["rules"]
]


@pytest.mark.parametrize("shown", RULES, ids=lambda shown: str(shown["kind"]))
def test_each_rule_shown_can_be_used(shown: dict[str, object]) -> None:
    EventDesk("dock", [rule(**shown)], LABELS, config_digest=CONFIG, clock=FakeClock())  # type: ignore[arg-type]


def test_every_kind_is_shown() -> None:
    assert [shown["kind"] for shown in RULES] == ["zone", "occupancy", "line", "dwell", "absence", "count"]


def test_the_record_shown_is_a_record() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    record = EventRecord.model_validate(json.loads(shown))
    assert record.state.value == "ended"
    assert record.latency_ms < record.deadline_ms


def test_every_field_and_every_camera_event_is_explained() -> None:
    tables = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    explained = set(re.findall(r"`([a-z0-9_]+)`", tables))
    assert explained >= set(EventRecord.model_fields) - {"v"}
    assert explained >= {reason.value for reason in Unobserved}
