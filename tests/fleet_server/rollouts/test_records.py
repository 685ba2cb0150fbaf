"""What a plan may say."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.protocol.release import ReleaseKind
from edge_runtime.protocol.release_values import MAX_VALUES, IntegerBounds, TextBounds, ValueBounds
from edge_runtime.protocol.update import CONFIGURATION_SLOT, MAX_ENVELOPE_BYTES
from fleet_server.rollouts.plan_records import MAX_VALUES_BYTES, RolloutPlan, StagePlan
from tests.rigs.rollout_fleet import PaperFleet

FULL = {f"v{number}": number for number in range(MAX_VALUES)}
LONGEST = "x" * (MAX_VALUES_BYTES - len('{"a":""}'))


TEXTS = {f"{'n' * 30}{number:02}": "\u20ac" * 64 for number in range(MAX_VALUES)}
"""The longest names and texts that people can sign for."""


def plan(**said: Any) -> RolloutPlan:
    values = {"name": "test", "slot": CONFIGURATION_SLOT, "release": "site", "counter": 1, **said}
    return RolloutPlan(stages=(StagePlan(),), **values)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            {"values": FULL, "device_values": {"dev-0": {"zz": 1}}},
            "dev-0 would have 65 values; 64 are the most",
        ),
        ({"values": {"a": LONGEST + "x"}}, "values of 32769 bytes; 32768 are the most"),
        (
            {"values": {"a": LONGEST}, "device_values": {"dev-0": {"b": 1}}},
            "dev-0 would have values of 32774",
        ),
        ({"device_values": {"dev-0": {"a": "x" * 60_000}}}, "dev-0 would have values of 60008"),
        ({"values": {"a": "\u20ac" * 11_000}}, "values of 33008 bytes"),
    ],
)
def test_more_values_than_one_signed_assignment_takes_are_refused(said: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        plan(**said)


@pytest.mark.parametrize(
    ("said", "declared"),
    [
        (
            {"values": FULL, "device_values": {"dev-0": {"v0": 1}}},
            {name: IntegerBounds(type="integer", minimum=0, maximum=64) for name in FULL},
        ),
        ({"values": TEXTS}, {name: TextBounds(type="text", one_of=(text,)) for name, text in TEXTS.items()}),
        (
            {"device_values": {"dev-0": TEXTS}},
            {name: TextBounds(type="text", one_of=(text,)) for name, text in TEXTS.items()},
        ),
    ],
)
def test_the_most_values_that_a_plan_takes_can_be_signed(
    fleet: PaperFleet, said: dict[str, Any], declared: dict[str, ValueBounds]
) -> None:
    fleet.publish(1, name="site", kind=ReleaseKind.CONFIGURATION, values=declared)
    fleet.enrol("dev-0", fate="silent")
    fleet.say("dev-0", slot=CONFIGURATION_SLOT)
    fleet.run(1, slot=CONFIGURATION_SLOT, release="site", **said)
    assert fleet.service.step(fleet.now_ms).signed == 1
    (row,) = fleet.rows("SELECT sealed, device_values FROM assignments")
    assert fleet.opened(bytes(row.sealed)).values == json.loads(row.device_values)
    assert len(row.sealed) < MAX_ENVELOPE_BYTES
