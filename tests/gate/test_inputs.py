"""Whatever stands in a policy file or an event file, the answer is a policy, an event, or sentences."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_runtime.config import InvalidConfig
from edge_runtime.errors import ConfigError
from edge_runtime.gate.explain import explain, parse_event
from edge_runtime.gate.policy_file import InForce, read_policy
from edge_runtime.policy import Policy
from edge_runtime.protocol import DecisionKind, EventRecord
from tests.rigs.events import FakeClock
from tests.rigs.gate import POLICY, event

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
EVENT = json.loads(event(FakeClock()).model_dump_json(exclude_none=True))

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


def _read(folder: Path, raw: bytes) -> Policy | None:
    path = folder / "policy.yaml"
    path.write_bytes(raw)
    lines: list[str] = ["valid"]
    policy = None
    try:
        policy = read_policy(path)
    except InvalidConfig as error:
        lines = error.lines()
    assert lines
    assert all(line and "\n" not in line for line in lines)
    return policy


@given(raw=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@SAME_FOLDER
def test_any_file_is_a_policy_or_problems(raw: bytes, tmp_path: Path) -> None:
    _read(tmp_path, raw)


@given(data=st.data())
@SAME_FOLDER
def test_a_damaged_policy_is_one_or_problems_and_never_sends_what_has_no_class(
    data: st.DataObject, tmp_path: Path
) -> None:
    lines = POLICY.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(["drop", "double", "indent", "value"]))
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "indent":
            lines[at] = "  " + lines[at]
        else:
            lines[at] = f"{lines[at].split(':')[0]}: {data.draw(st.text(max_size=12))}"
    policy = _read(tmp_path, "\n".join(lines).encode("utf-8", "replace"))
    unlabelled = event(FakeClock(), data_class="unknown", severity="critical")
    assert explain(unlabelled, InForce(policy)).decision.kind is DecisionKind.HOLD


def _parse(raw: bytes) -> EventRecord | None:
    said, found = "", None
    try:
        found = parse_event(raw, "event.json")
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said
    return found


@given(raw=st.binary(max_size=200))
def test_any_bytes_are_an_event_or_one_sentence(raw: bytes) -> None:
    assert _parse(raw) is None


@given(field=st.sampled_from(sorted(EVENT)), value=_VALUES)
@settings(max_examples=100)
def test_a_field_of_any_kind_is_an_event_or_one_sentence(field: str, value: Any) -> None:
    found = _parse(json.dumps({**EVENT, field: value}).encode())
    if found is not None and field == "data_class" and not isinstance(value, str):
        assert found.data_class.value == "unknown"


@pytest.mark.parametrize("field", sorted(EVENT))
def test_a_missing_field_is_named_but_the_class_which_is_unknown(field: str) -> None:
    raw = json.dumps({name: value for name, value in EVENT.items() if name != field}).encode()
    found = _parse(raw)
    optional = {"v", "label", "track", "confidence", "model", "data_class"}
    assert (found is not None) == (field in optional)
