"""docs/policy.md and docs/protocol.md say what the code does: reasons, topics, limits, examples."""

import re

import pytest
import yaml

from edge_runtime.gate.redaction import CELLS, LEVELS
from edge_runtime.policy import Policy
from edge_runtime.policy.model import Budget
from edge_runtime.protocol import Channel, Fate, Reason
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import (
    MAX_BODY_BYTES,
    MAX_BUNDLE_BYTES,
    MAX_BUNDLE_ITEMS,
    MAX_RANGES,
    BundleItem,
    RejectionCode,
)
from edge_runtime.protocol.operation import CommandKind
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES
from tests.conftest import REPOSITORY

POLICY = (REPOSITORY / "docs" / "policy.md").read_text(encoding="utf-8")
PROTOCOL = (REPOSITORY / "docs" / "protocol.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: str(reason.value))
def test_every_reason_is_explained(reason: Reason) -> None:
    table = POLICY.split("| reason | meaning |")[1].split("\n\n")[0]
    assert f"`{reason.value}`" in table


def test_the_example_is_a_policy() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", POLICY, re.DOTALL)
    assert Policy.model_validate(yaml.safe_load(example)).permits[0].name == "safety-alerts"


def test_the_numbers_of_the_policy_page_are_those_of_the_code() -> None:
    assert f"{Budget().events_per_hour})" in POLICY
    assert f"{Budget().evidence_bytes_per_hour:,}" in POLICY
    assert f"{CELLS} x {CELLS} cells remain, with {LEVELS} levels" in POLICY


def test_every_topic_code_fate_and_command_is_listed() -> None:
    for channel in Channel:
        if not channel.is_events:
            assert f"| `{channel.value}` |" in PROTOCOL
    assert "`up/ev/0` … `up/ev/3`" in PROTOCOL
    for word in (*RejectionCode, *Fate, *CommandKind):
        assert f"`{word.value}`" in PROTOCOL


def test_every_field_of_a_bundle_item_and_a_decision_receipt_is_listed() -> None:
    for record in (BundleItem, DecisionReceipt):
        for name in record.model_fields:
            assert f"`{name}`" in PROTOCOL or name == "v"


def test_the_limits_are_those_of_the_code() -> None:
    limits = PROTOCOL.split("## Limits")[1]
    for number in (MAX_PAYLOAD_BYTES, MAX_BUNDLE_ITEMS, MAX_BUNDLE_BYTES, MAX_BODY_BYTES, MAX_RANGES):
        assert f"{number:,}" in limits
