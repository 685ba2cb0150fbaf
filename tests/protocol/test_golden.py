"""The bytes of version 1 never change: devices in the field and servers of another age speak them."""

import pytest

from edge_runtime.protocol import PROTOCOL, WireRecord
from edge_runtime.protocol.decision import DecisionReceipt
from tests.rigs.wire_records import GOLDEN, RECORDS, SIGNED, golden_file, signed_bytes, signed_file


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_record_has_the_bytes_that_it_always_had(name: str) -> None:
    assert RECORDS[name].encode(compress=False) == golden_file(name).read_bytes()


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_bytes_are_the_record(name: str) -> None:
    assert type(RECORDS[name]).decode(golden_file(name).read_bytes()) == RECORDS[name]


@pytest.mark.parametrize("name", sorted(SIGNED))
def test_what_is_signed_has_the_bytes_that_it_always_had(name: str) -> None:
    found = signed_file(name).read_bytes()
    assert signed_bytes(SIGNED[name]) == found
    assert type(SIGNED[name]).model_validate_json(found) == SIGNED[name]


def test_every_kind_of_record_has_golden_bytes() -> None:
    # items of a bundle, rejections and the like lie within the records that carry them
    within = {
        "BundleItem",
        "Rejection",
        "OutcomeRange",
        "LinkSignals",
        "GateCounts",
        "CameraHealth",
        "HeldItem",
    }
    covered = {type(record).__name__ for record in RECORDS.values()} | within
    assert {kind.__name__ for kind in _all_records(WireRecord)} <= covered
    files = [*(golden_file(name) for name in RECORDS), *(signed_file(name) for name in SIGNED)]
    assert {path.name for path in GOLDEN.iterdir()} == {path.name for path in files}


def _all_records(base: type[WireRecord]) -> set[type[WireRecord]]:
    found = {kind for kind in base.__subclasses__() if kind.__module__.startswith("edge_runtime.protocol")}
    return found.union(*(_all_records(kind) for kind in found))


def test_the_version_in_the_bytes_is_ours() -> None:
    assert PROTOCOL == (1, 0)
    assert all(record.v == PROTOCOL for record in RECORDS.values())


def test_an_example_fills_every_field() -> None:
    for record in (*RECORDS.values(), *SIGNED.values()):
        empty = [name for name in type(record).model_fields if getattr(record, name) is None]
        assert empty == []


def test_receipts_of_decisions_have_no_place_for_content() -> None:
    """An allow-list: whoever adds a field to the receipt must say here that it holds no content."""
    assert set(DecisionReceipt.model_fields) == {
        *("v", "id", "event", "revision", "decision", "reasons", "rule", "camera", "severity", "data_class"),
        *("permit", "recipients", "purpose", "evidence", "policy", "at", "by", "note"),
    }
