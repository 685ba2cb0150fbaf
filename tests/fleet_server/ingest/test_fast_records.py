"""The fast way accepts nothing that the record refuses, reads the same values, and refuses in its words."""

import copy
import math
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from edge_runtime.protocol.delivery import ApprovedEvent, EventBundle, Receipt
from edge_runtime.protocol.wire import WireError, WireRecord
from fleet_server.ingest import fast_records, inspection, judgement
from fleet_server.ingest.fast_records import FastReader
from tests.rigs.deliveries import DeviceRig
from tests.rigs.wire_records import golden_file

_APPROVED, _BUNDLES = judgement._APPROVED, inspection._BUNDLES
_READERS: dict[str, tuple[FastReader[Any], type[WireRecord]]] = {
    "approved_event": (_APPROVED, ApprovedEvent),
    "bundle": (_BUNDLES, EventBundle),
}
_GOLDEN = {name: golden_file(name).read_bytes() for name in _READERS}

Path = tuple[str | int, ...]


def _values(found: Any) -> Any:
    """A record of either kind as plain values, each with its type."""
    if isinstance(found, msgspec.Struct):
        return {name: _values(getattr(found, name)) for name in found.__struct_fields__}
    if isinstance(found, BaseModel):
        return {name: _values(getattr(found, name)) for name in type(found).model_fields}
    if isinstance(found, tuple):
        return [_values(inner) for inner in found]
    if isinstance(found, Enum):
        return (type(found), found.value)
    return (type(found), found)


def _outcome(decode: Callable[[bytes], Any], payload: bytes) -> Any:
    try:
        return _values(decode(payload))
    except WireError as error:
        return (error.fault, str(error))


def _compare(name: str, payload: bytes) -> bool:
    """Both ways say the same; whether the fast one did the reading."""
    reader, kind = _READERS[name]
    assert _outcome(reader.decode, payload) == _outcome(kind.decode, payload)
    try:
        return isinstance(reader.decode(payload), msgspec.Struct)
    except WireError:
        return False


@pytest.mark.parametrize("name", _READERS)
def test_golden_bytes_are_read_the_fast_way_and_with_the_same_values(name: str) -> None:
    assert _compare(name, _GOLDEN[name])


def test_what_a_device_sends_is_read_the_fast_way() -> None:
    rig = DeviceRig()
    item = rig.item()
    assert _compare("approved_event", item.body)
    assert _compare("bundle", rig.bundle(item, *rig.items(19))[1])


def _paths(found: Any, so_far: Path = ()) -> list[Path]:
    paths: list[Path] = [so_far] if so_far else []
    if isinstance(found, dict):
        steps: list[tuple[str | int, Any]] = list(found.items())
    elif isinstance(found, list):
        steps = list(enumerate(found))
    else:
        return paths
    for step, inner in steps:
        paths += _paths(inner, (*so_far, step))
    return paths


_TREES = {name: msgpack.unpackb(golden) for name, golden in _GOLDEN.items()}
_PLACES = {name: _paths(tree) for name, tree in _TREES.items()}

_NUMBERS = st.sampled_from(
    [-1, 0, 1, 2, 64, 1000, 65_535, 65_536, (1 << 31) - 1, 1 << 31, (1 << 53) - 1, 1 << 53, (1 << 63) - 1]
) | st.sampled_from([1 << 63, (1 << 64) - 1, -(1 << 63)])
_FLOATS = st.floats() | st.sampled_from(
    [float("nan"), float("inf"), float("-inf"), -0.0, 1.0, 1.7976931348623157e308, 5e-324]
)
_LEAVES = st.none() | st.booleans() | _NUMBERS | _FLOATS | st.text(max_size=8) | st.binary(max_size=20)
_ANY = _LEAVES | st.lists(_LEAVES, max_size=3) | st.dictionaries(st.text(max_size=4), _LEAVES, max_size=3)


def _near(value: Any) -> st.SearchStrategy[Any]:
    """Values that a careless reader may take for this one."""
    if isinstance(value, str):
        texts = [
            value + "\n",
            value + "\0",
            value[1:],
            value.upper(),
            " " + value,
            value[:-1] + "é",
            value * 130,
        ]
        texts += ["x" * 64, "x" * 65, "x" * 128, "x" * 129, "\U0001f600" * 128, "x" * 256, "x" * 257, ""]
        return st.sampled_from([*texts, value.encode()])
    if isinstance(value, bool):
        return st.sampled_from([int(value), float(value), not value, str(value)])
    if isinstance(value, (int, float)):
        numbers = [value + 1, value - 1, -value, float(value)]
        whole = [int(number) for number in numbers if math.isfinite(number)]
        fitting = [number for number in (*numbers, *whole) if isinstance(number, float) or _fits(number)]
        return st.sampled_from([*fitting, str(value)])
    if isinstance(value, bytes):
        return st.sampled_from([value + b"x", value[1:], b"", value * 2000, value.decode("latin-1")])
    if isinstance(value, list):
        return st.sampled_from([value * 70, [], value[:1], value[::-1], value * 16, value * 9])
    return st.just([value])


def _fits(number: int) -> bool:
    """Whether msgpack can hold it."""
    return -(1 << 63) <= number < 1 << 64


@st.composite
def _changed(draw: st.DrawFn, name: str) -> bytes:
    tree = copy.deepcopy(_TREES[name])
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(_PLACES[name]))
        holder = tree
        for step in way:
            holder = holder[step] if _has(holder, step) else None
        if not _has(holder, last):
            continue
        change = draw(st.sampled_from(["near", "near", "any", "gone", "new"]))
        if change == "gone":
            del holder[last]
        elif change == "new" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["extra", "v", "V", "id ", "at", "key"]))] = draw(_ANY)
        else:
            holder[last] = draw(_near(holder[last]) if change == "near" else _ANY)
    payload: bytes = msgpack.packb(tree, unicode_errors="surrogatepass")
    return payload


def _has(holder: Any, step: str | int) -> bool:
    if isinstance(holder, list):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder


@pytest.mark.parametrize("name", _READERS)
@given(st.data())
def test_both_ways_agree_on_any_change_of_any_field(name: str, data: st.DataObject) -> None:
    _compare(name, data.draw(_changed(name)))


@pytest.mark.parametrize("name", _READERS)
@given(st.data())
def test_both_ways_agree_on_any_changed_bytes(name: str, data: st.DataObject) -> None:
    payload = bytearray(_GOLDEN[name])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    _compare(name, bytes(payload))


@pytest.mark.trial
@pytest.mark.parametrize("name", _READERS)
def test_both_ways_agree_on_every_value_of_every_byte(name: str) -> None:
    golden = _GOLDEN[name]
    for place in range(len(golden)):
        for value in range(256):
            _compare(name, golden[:place] + bytes([value]) + golden[place + 1 :])


@pytest.mark.parametrize("name", _READERS)
@pytest.mark.parametrize("cut", [1, 7, 100])
def test_both_ways_agree_on_cut_and_prolonged_bytes(name: str, cut: int) -> None:
    golden = _GOLDEN[name]
    assert not _compare(name, golden[:-cut])
    assert not _compare(name, golden + bytes(cut))


@pytest.mark.parametrize("name", _READERS)
def test_both_ways_agree_on_a_key_that_comes_twice(name: str) -> None:
    for key, value in _TREES[name].items():
        for other in (value, None, [9, 9]):
            for pairs in ([*_TREES[name].items(), (key, other)], [(key, other), *_TREES[name].items()]):
                _compare(name, msgpack.Packer().pack_map_pairs(pairs))


@pytest.mark.parametrize(
    ("path", "inside", "outside"),
    [
        (("event", "id"), "x" * 128, "x" * 129),
        (("event", "label"), "\U0001f600" * 64, "\U0001f600" * 65),
        (("event", "revision"), 1, 0),
        (("event", "confidence"), 1.0, 1.0000001),
        (("event", "deadline_ms"), 5e-324, 0.0),
        (("event", "latency_ms"), 1.7976931348623157e308, float("inf")),
        (("event", "box", "x1"), -1.7976931348623157e308, float("nan")),
        (("event", "config"), "sha256:" + "0" * 64, "sha256:" + "0" * 64 + "\n"),
        (("decision", "recipients"), ["fleet"] * 16, ["fleet"] * 17),
        (("decision", "reasons"), ["permitted"] * 16, []),
        (("decision", "purpose"), "a" * 64, "a" * 65),
        (("decision", "purpose"), None, ""),
        (("decision", "recipients"), [], ["fleet", "Fleet"]),
        (("decision", "policy"), None, "sha256:"),
        (("event", "model"), "sha256:" + "a" * 64, "sha256:" + "A" * 64),
        (("decision", "evidence", "sha256"), "a" * 64, "a" * 64 + "\n"),
        (("decision", "v"), [1, 65_535], [1, 65_536]),
    ],
)
def test_bounds_are_those_of_the_record(path: Path, inside: Any, outside: Any) -> None:
    def with_value(value: Any) -> bytes:
        tree = copy.deepcopy(_TREES["approved_event"])
        holder = tree
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value
        payload: bytes = msgpack.packb(tree)
        return payload

    assert _compare("approved_event", with_value(inside))
    assert not _compare("approved_event", with_value(outside))


@pytest.mark.parametrize(("number", "is_read"), [((1 << 63) - 1, True), (1 << 63, False), (0, False)])
def test_sequence_numbers_have_63_bits(number: int, is_read: bool) -> None:
    tree = copy.deepcopy(_TREES["bundle"])
    tree["items"][0]["seq"] = number
    assert _compare("bundle", msgpack.packb(tree)) == is_read


def test_a_newer_minor_version_is_left_to_the_record() -> None:
    tree = _TREES["approved_event"] | {"v": [1, 7], "new": "field"}
    assert not _compare("approved_event", msgpack.packb(tree))
    assert _APPROVED.decode(msgpack.packb(tree)).event.id == tree["event"]["id"]


def test_too_long_is_too_long_both_ways() -> None:
    golden = _GOLDEN["approved_event"]
    for read in (_APPROVED.decode, ApprovedEvent.decode):
        with pytest.raises(WireError, match="at most 100 are read"):
            read(golden, 100)


class _WithRule(WireRecord):
    name: str

    @field_validator("name")
    @classmethod
    def _checked(cls, name: str) -> str:
        return name


class _WithFields(WireRecord, extra="ignore"):
    name: str


class _WithPattern(WireRecord):
    name: Annotated[str, Field(pattern=r"^(?:a|\d)$")]


class _WithStep(WireRecord):
    number: Annotated[int, Field(multiple_of=5)]


class _WithAny(WireRecord):
    anything: Any


@pytest.mark.parametrize("kind", [_WithRule, _WithFields, _WithPattern, _WithStep, _WithAny, Receipt])
def test_a_record_that_it_cannot_follow_is_no_fast_record(kind: type[WireRecord]) -> None:
    with pytest.raises(TypeError, match=r"not known here|that it does not name"):
        FastReader(kind)


def test_what_is_remembered_of_repeated_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_records, "_MOST_REMEMBERED", 3)
    reader = FastReader(ApprovedEvent, ("event.config", "decision.recipients"))
    for number in range(10):
        tree = copy.deepcopy(_TREES["approved_event"])
        tree["event"]["config"] = f"sha256:{number:064x}"
        for _ in range(2):
            assert isinstance(reader.decode(msgpack.packb(tree)), msgspec.Struct)
        assert len(reader._found_right) <= 3
        tree["event"]["config"] = "sha256:"
        for _ in range(2):
            with pytest.raises(WireError, match=r"event.config: string_pattern_mismatch"):
                reader.decode(msgpack.packb(tree))


@pytest.mark.parametrize("path", ["event.id", "event.evidence.sha256", "decision.evidence", "event"])
def test_only_a_field_with_one_pattern_may_be_named_as_repeated(path: str) -> None:
    with pytest.raises(TypeError, match=r"has not one pattern|is no record"):
        FastReader(ApprovedEvent, ("event.config", path))
