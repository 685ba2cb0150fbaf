"""Datagrams: what is a proposal, what is an approval, and that nothing else is either."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.errors import ConfigError
from edge_runtime.guard.motion_gate.approvals import NotAnApproval, Record
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.proposals import (
    LARGEST_DATAGRAM,
    MOST_AXES,
    Malformed,
    encode,
    encode_approval,
    parse,
)
from edge_runtime.guard.strict_json import JsonObject, finite, strict_json
from tests.rigs.motion_gate import approval

GOOD: dict[str, Any] = {"seq": 1, "at_ns": 5, "ttl_ms": 100, "action": "drive", "values": {"v": 0.5, "w": 1}}


def test_a_proposal_as_documented() -> None:
    found = parse(json.dumps(GOOD).encode())
    assert found == Proposal(1, 5, 100_000_000, "drive", {"v": 0.5, "w": 1.0})


@given(
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 63) - 1),
    st.integers(1, 60_000),
    st.text(min_size=1, max_size=20),
    st.dictionaries(
        st.text(min_size=1, max_size=4),
        st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=4,
    ),
)
def test_proposals_come_back(
    sequence: int, at_ns: int, ttl_ms: int, action: str, values: dict[str, float]
) -> None:
    proposal = Proposal(sequence, at_ns, ttl_ms * 1_000_000, action, values)
    data = encode(proposal)
    if len(data) <= LARGEST_DATAGRAM:
        assert parse(data) == proposal
    else:
        with pytest.raises(Malformed):
            parse(data)


@pytest.mark.parametrize(
    "change",
    [
        {"seq": -1},
        {"seq": 1 << 63},
        {"seq": 1.0},
        {"seq": True},
        {"seq": "1"},
        {"seq": None},
        {"at_ns": -1},
        {"at_ns": 1 << 63},
        {"ttl_ms": 0},
        {"ttl_ms": 60_001},
        {"ttl_ms": 10.5},
        {"action": ""},
        {"action": "x" * 65},
        {"action": 1},
        {"values": {}},
        {"values": []},
        {"values": {f"a{at}": 0 for at in range(MOST_AXES + 1)}},
        {"values": {"v": "1"}},
        {"values": {"v": True}},
        {"values": {"v": None}},
        {"values": {"v": [1]}},
        {"values": {"": 1}},
        {"values": {"v" * 65: 1}},
        {"values": {"v": 10**400}},
        {"more": 1},
        {"approval": {}},
    ],
)
def test_what_is_no_proposal(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        parse(json.dumps(GOOD | change).encode())


@pytest.mark.parametrize("key", sorted(GOOD))
def test_a_missing_key_is_not_guessed(key: str) -> None:
    with pytest.raises(Malformed):
        parse(json.dumps({name: value for name, value in GOOD.items() if name != key}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"nonsense",
        b"[]",
        b"1",
        b"null",
        b"{}",
        b"[" * 1024,
        json.dumps(GOOD).encode("utf-16"),
        json.dumps(GOOD)[:-1].encode() + b', "seq": 2}',
        json.dumps(GOOD).encode() + b"{}",
        json.dumps(GOOD | {"values": {"v": math.nan}}).encode(),
        json.dumps(GOOD | {"values": {"v": -math.inf}}).encode(),
        json.dumps(GOOD | {"action": "d" * 64}).encode().ljust(LARGEST_DATAGRAM + 1),
    ],
)
def test_bytes_that_are_no_proposal(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)


def test_sizes_at_the_edge() -> None:
    assert isinstance(parse(json.dumps(GOOD).encode().ljust(LARGEST_DATAGRAM)), Proposal)
    edge = GOOD | {"seq": (1 << 63) - 1, "at_ns": (1 << 63) - 1, "ttl_ms": 60_000, "action": "x" * 64}
    edge["values"] = {f"a{at}": 0 for at in range(MOST_AXES)}
    found = parse(json.dumps(edge).encode())
    assert isinstance(found, Proposal)
    assert found.ttl_ns == 60_000_000_000


def test_the_smallest_proposal() -> None:
    least = {"seq": 0, "at_ns": 0, "ttl_ms": 1, "action": "x", "values": {"v": 0}}
    assert parse(json.dumps(least).encode()) == Proposal(0, 0, 1_000_000, "x", {"v": 0.0})


def test_a_proposal_is_written_as_documented() -> None:
    proposal = Proposal(7, 5, 100_999_999, "drive", {"v": 0.5})
    assert encode(proposal) == b'{"seq":7,"at_ns":5,"ttl_ms":100,"action":"drive","values":{"v":0.5}}'
    with pytest.raises(ValueError, match="JSON"):
        encode(Proposal(7, 5, 100, "drive", {"v": math.nan}))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b" " * 1025, "longer than 1024 bytes"),
        (b'{"a": 1, "a": 2}', "a key twice"),
        (b"[]", "not an object"),
        (b"{}", "wrong keys"),
        (json.dumps(GOOD | {"ttl_ms": 0}).encode(), "not a whole number in [1, 60000]"),
        (json.dumps(GOOD | {"action": ""}).encode(), "not a name of 1 to 64 characters"),
        (json.dumps(GOOD | {"values": {}}).encode(), "not 1 to 16 values"),
        (json.dumps(GOOD | {"values": {"v": "1"}}).encode(), "not a number"),
        (json.dumps(GOOD | {"values": {"v": 10**400}}).encode(), "a number too large for a double"),
    ],
)
def test_what_is_wrong_with_a_proposal_is_said(data: bytes, sentence: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse(data)
    assert str(caught.value) == sentence


def test_a_number_beyond_doubles_is_infinite_and_left_to_the_judge() -> None:
    found = parse(json.dumps(GOOD).replace("0.5", "1e999").encode())
    assert isinstance(found, Proposal)
    assert found.values["v"] == math.inf


@given(st.binary(max_size=200))
def test_any_bytes_are_a_proposal_or_refused(data: bytes) -> None:
    with pytest.raises((Malformed, NotAnApproval)):
        parse(data)


def test_an_approval_travels_as_a_datagram() -> None:
    record = approval(1_790_000_000_000, approval="a" * 64)
    data = encode_approval(record)
    assert len(data) <= LARGEST_DATAGRAM
    found = parse(data)
    assert isinstance(found, Record)
    assert found.key == "lead"
    with pytest.raises(NotAnApproval):
        parse(b'{"approval": {"text": "x"}}')


# -- JSON of one reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b'{"a":1,"a":1}', b'{"b":{"a":1,"a":2}}', b"NaN", b"[Infinity]", b"\xc3(", b"[" * 100_000]
)
def test_json_with_two_readings_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        strict_json(data)
    assert not isinstance(caught.value, RecursionError)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (-0.5, -0.5),
        (True, None),
        ("1", None),
        (None, None),
        (10**400, None),
        (math.inf, None),
        (math.nan, None),
    ],
)
def test_finite_numbers(value: object, number: float | None) -> None:
    assert finite(value) == number


def test_an_object_is_taken_to_pieces_once() -> None:
    part = JsonObject({"t": "x", "n": 3, "f": 1.5, "b": True, "l": [1], "s": ["a"], "o": {"k": 1}}, "top")
    assert part.text("t", 1) == "x"
    assert part.whole("n", 3, 3) == 3
    assert part.number("f") == 1.5
    assert part.flag("b") is True
    assert part.items("l", 1) == [1]
    assert part.texts("s", 1) == ("a",)
    assert part.named("o", 1, lambda value, place: (value, place)) == {"k": (1, "top.o.k")}
    part.end()
    with pytest.raises(ConfigError, match=r"top\.t: missing"):
        part.take("t")
    with pytest.raises(ConfigError, match=r"top\.a: no such setting"):
        JsonObject({"b": 1, "a": 2}, "top").end()
    with pytest.raises(ConfigError, match=r"top: not an object"):
        JsonObject([], "top")


def test_edges_of_an_object() -> None:
    edge = JsonObject({"s": ["a" * 1024], "o": {"k" * 64: 1}}, "top")
    assert edge.texts("s", 1) == ("a" * 1024,)
    assert list(edge.named("o", 1, lambda value, _: value)) == ["k" * 64]
    for value in ([""], ["a" * 1025], ["a", "b"], [1], "a"):
        with pytest.raises(ConfigError, match=r"top\.s: not a list"):
            JsonObject({"s": value}, "top").texts("s", 1)
    for number in (1.5, "3", None, True):
        with pytest.raises(ConfigError, match=r"top\.n: not a whole number from 0 to 9"):
            JsonObject({"n": number}, "top").whole("n", 0, 9)


@pytest.mark.parametrize(
    ("data", "sentence"), [(b"[" * 100_000, "nested too deep"), (b"NaN", "NaN is not JSON")]
)
def test_what_is_wrong_with_json_is_said(data: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        strict_json(data)
    assert str(caught.value) == sentence
