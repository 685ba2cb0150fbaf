"""The codec: what it reads back, and what it refuses before it can do harm."""

import zlib
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.protocol import WireError, WireFault
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent, EventBundle, Ledger, Presence, Receipt, Sync
from edge_runtime.protocol.operation import Command, Health
from edge_runtime.protocol.wire import COMPRESS_FROM_BYTES, MAX_PAYLOAD_BYTES, pack, places, unpack, validate
from tests.rigs.wire_records import DECISION, LEDGER, RECORDS

KINDS = sorted({type(record) for record in RECORDS.values()}, key=lambda kind: kind.__name__)


def fault_of(payload: bytes, kind: Any = Ledger) -> WireFault:
    with pytest.raises(WireError) as error:
        kind.decode(payload)
    return error.value.fault


@pytest.mark.parametrize("name", sorted(RECORDS))
@pytest.mark.parametrize("compress", [True, False])
def test_every_record_survives_the_road(name: str, compress: bool) -> None:
    record = RECORDS[name]
    payload = record.encode(compress=compress)
    assert type(record).decode(payload) == record
    assert len(payload) <= len(record.encode(compress=False))


@given(st.lists(st.integers(0, 2**63 - 1), min_size=7, max_size=7))
def test_counts_of_63_bits_survive(counts: list[int]) -> None:
    ledger = Ledger(
        **dict(
            zip(
                ("accepted", "queued", "delivered", "expired", "evicted", "rejected", "lost"),
                counts,
                strict=True,
            )
        )
    )
    assert Ledger.decode(ledger.encode()) == ledger


@given(
    st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 1000)), max_size=60),
    st.integers(0, 2**63 - 1),
    st.integers(0, 1000),
)
def test_receipts_survive(ranges: list[tuple[int, int]], high: int, credit: int) -> None:
    receipt = Receipt(
        epoch=RECORDS["receipt"].epoch,  # type: ignore[attr-defined]
        high=high,
        accepted=tuple((first, first + more) for first, more in ranges),
        credit=credit,
        server_ms=1,
    )
    assert Receipt.decode(receipt.encode()) == receipt


@given(st.text(max_size=128).filter(bool), st.text(max_size=200).filter(bool))
def test_text_of_any_script_survives_in_a_decision(rule: str, note: str) -> None:
    record = DECISION.model_copy(update={"rule": rule, "note": note})
    try:
        assert DecisionReceipt.decode(record.encode()) == record
    except UnicodeEncodeError:
        assert any("\ud800" <= char <= "\udfff" for char in rule + note)  # half characters never get that far


# ---- fuzzing: only WireError may come out, and soon


@given(st.binary(max_size=600))
@settings(max_examples=300)
def test_any_bytes_give_a_record_or_a_wire_error(payload: bytes) -> None:
    for kind in KINDS:
        _decode(kind, payload)


@given(st.sampled_from(sorted(RECORDS)), st.data())
@settings(max_examples=300)
def test_damaged_records_give_a_record_or_a_wire_error(name: str, data: st.DataObject) -> None:
    kind = type(RECORDS[name])
    raw = bytearray(RECORDS[name].encode(compress=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(raw) - 1))
        how = data.draw(st.sampled_from(["change", "cut", "double"]))
        if how == "change":
            raw[where] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del raw[where:]
            break
        else:
            raw[where:where] = raw[where : where + 20]
    _decode(kind, bytes(raw))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(RECORDS)), st.data())
@settings(max_examples=300)
def test_a_field_of_any_kind_gives_a_record_or_a_wire_error(name: str, data: st.DataObject) -> None:
    kind = type(RECORDS[name])
    fields = RECORDS[name].model_dump(exclude_none=True)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(_JSON)
    _decode(kind, msgpack.packb(fields))


def _decode(kind: Any, payload: bytes) -> None:
    try:
        record = kind.decode(payload)
    except WireError:
        return
    assert kind.decode(record.encode()) == record


# ---- bombs


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"", WireFault.MALFORMED),
        (b"\x80" + bytes(MAX_PAYLOAD_BYTES), WireFault.TOO_LARGE),
        (zlib.compress(bytes(100 * 1024 * 1024), 9)[:MAX_PAYLOAD_BYTES], WireFault.TOO_LARGE),
        (zlib.compress(zlib.compress(bytes(50_000_000))), WireFault.MALFORMED),
        (zlib.compress(b"\x80") + b"more", WireFault.MALFORMED),
        (zlib.compress(RECORDS["health"].encode(compress=False))[:-4], WireFault.MALFORMED),
        (b"x\x9c", WireFault.MALFORMED),
        (b"\x78" + bytes(50), WireFault.MALFORMED),
        (b"\xdd\xff\xff\xff\xff", WireFault.MALFORMED),  # a list of 4 billion
        (b"\xdf\xff\xff\xff\xff", WireFault.MALFORMED),  # a map of 4 billion
        (b"\xc6\xff\xff\xff\xff", WireFault.MALFORMED),  # 4 GiB of bytes
        (b"\xdb\xff\xff\xff\xffx", WireFault.MALFORMED),
        (b"\x81\xa1v" + b"\x91" * 10_000 + b"\x90", WireFault.MALFORMED),  # a list in a list in a list
        (b"\x81\xa1v" + b"\x81\xa1a" * 30_000 + b"\xc0", WireFault.MALFORMED),
        (b"\x81\xa1v\xc7\x04\x05abcd", WireFault.MALFORMED),  # an extension type
        (b"\x81\xa1v\xd7\xff" + bytes(8), WireFault.MALFORMED),  # a timestamp, which is one too
        (b"\x81\x01\x02", WireFault.MALFORMED),  # a key that is no text
        (b"\x81\xc4\x01v\x92\x01\x00", WireFault.MALFORMED),  # a key of bytes
        (b"\x90", WireFault.MALFORMED),
        (b"\xc0", WireFault.MALFORMED),
        (b"\x80\x80", WireFault.MALFORMED),  # two maps
        (b"\x81\xa1v\x92\x01", WireFault.MALFORMED),
        (b"\x81\xa1v\xa4\xff\xfe\xfd\xfc", WireFault.MALFORMED),  # text that is no UTF-8
        (b"\x80", WireFault.MALFORMED),  # no version
        (pack({"v": [1]}), WireFault.MALFORMED),
        (pack({"v": [True, 0]}), WireFault.MALFORMED),
        (pack({"v": ["1", "0"]}), WireFault.MALFORMED),
        (pack({"v": [2, 0]}), WireFault.UNKNOWN_VERSION),
        (pack({"v": [0, 9]}), WireFault.UNKNOWN_VERSION),
        (pack({"v": [1, 0], "accepted": -1}), WireFault.INVALID),
        (pack({"v": [1, -1]}), WireFault.INVALID),
        (pack({"v": [1, 0], "accepted": float("nan")}), WireFault.INVALID),
    ],
)
def test_bombs_and_nonsense_are_refused_with_their_kind(payload: bytes, fault: WireFault) -> None:
    assert fault_of(payload) is fault


def test_a_zlib_bomb_is_read_to_the_cap_and_no_further() -> None:
    import tracemalloc

    bomb = zlib.compress(bytes(200 * 1024 * 1024), 9)
    assert len(bomb) < 250_000
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            unpack(bomb[:MAX_PAYLOAD_BYTES])
        with pytest.raises(WireError):
            unpack(bomb, max_bytes=300_000)
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_small_bomb_inside_the_cap_is_told_by_its_size() -> None:
    bomb = zlib.compress(bytes(3 * MAX_PAYLOAD_BYTES), 9)
    assert len(bomb) < 2000
    assert fault_of(bomb) is WireFault.TOO_LARGE


def test_what_is_written_is_bounded_as_well() -> None:
    with pytest.raises(WireError) as error:
        pack({"v": [1, 0], "text": "x" * MAX_PAYLOAD_BYTES})
    assert error.value.fault is WireFault.TOO_LARGE


def test_short_and_incompressible_payloads_go_as_they_are() -> None:
    assert LEDGER.encode()[0] != 0x78
    assert len(LEDGER.encode()) < COMPRESS_FROM_BYTES
    assert RECORDS["health"].encode()[0] == 0x78
    assert RECORDS["health"].encode(compress=False)[0] != 0x78


# ---- versions


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_newer_minor_version_is_read_and_its_new_fields_are_passed_over(name: str) -> None:
    fields = {**RECORDS[name].model_dump(exclude_none=True), "v": [1, 7], "new_in_1_7": {"deep": [1, 2]}}
    read = type(RECORDS[name]).decode(pack(fields))
    assert read.model_copy(update={"v": (1, 0)}) == RECORDS[name]
    assert read.v == (1, 7)


def test_new_fields_deep_inside_a_newer_minor_version_are_passed_over() -> None:
    fields = RECORDS["approved_event"].model_dump(exclude_none=True)
    fields["v"] = [1, 1]
    fields["event"]["mood"] = "calm"
    fields["decision"]["evidence"]["codec"] = "webp"
    assert ApprovedEvent.decode(pack(fields)).event.rule == "loading-bay"


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_in_our_own_version_an_unknown_field_is_a_fault(name: str) -> None:
    fields = {**RECORDS[name].model_dump(exclude_none=True), "surprise": 1}
    assert fault_of(pack(fields), type(RECORDS[name])) is WireFault.INVALID


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_another_major_version_is_refused_also_inside(name: str) -> None:
    fields = {**RECORDS[name].model_dump(exclude_none=True), "v": [2, 0]}
    assert fault_of(pack(fields), type(RECORDS[name])) is WireFault.UNKNOWN_VERSION
    if name == "approved_event":
        inner = RECORDS[name].model_dump(exclude_none=True)
        inner["decision"]["v"] = [2, 0]
        assert fault_of(pack(inner), ApprovedEvent) is WireFault.INVALID


def test_a_version_is_declared() -> None:
    with pytest.raises(WireError, match="declares no version"):
        validate(Ledger, {"accepted": 1})


# ---- errors hold no content


@pytest.mark.parametrize(
    "field", ["kind", "device", "item", "by", "CANARY-in-a-field", "a\nb CANARY-in-a-field"]
)
def test_an_error_names_places_and_never_values(field: str) -> None:
    canary = "CANARY-in-a-field"
    fields = {**RECORDS["command"].model_dump(exclude_none=True), field: canary * 20}
    with pytest.raises(WireError) as error:
        Command.decode(pack(fields))
    assert canary not in str(error.value)
    assert "\n" not in str(error.value)


def test_an_error_with_many_places_is_short() -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError) as error:
        Health.model_validate({name: object() for name in "abcdefgh"})
    text = places(error.value)
    assert "and" in text
    assert len(text) < 400


# ---- what the records themselves refuse


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        (Receipt, "receipt", {"accepted": [[5, 3]]}),
        (Receipt, "receipt", {"accepted": [[0, 3]]}),
        (Receipt, "receipt", {"credit": 1001}),
        (Receipt, "receipt", {"epoch": "0190a5d0-3c5e-4a11-8a0b-1c2d3e4f5a6b"}),
        (Receipt, "receipt", {"accepted": [[1, 1]] * 513}),
        (Sync, "sync", {"device": "Dock"}),
        (Sync, "sync", {"device": "dock/+"}),
        (Sync, "sync", {"lowest": 0}),
        (Sync, "sync", {"next": 2**63}),
        (Presence, "presence", {"state": "asleep"}),
        (EventBundle, "bundle", {"items": []}),
        (Command, "command", {"item": "../etc/passwd"}),
        (Command, "command", {"kind": "run_shell"}),
        (Command, "command", {"note": ""}),
        (Health, "health", {"uptime_s": float("nan")}),
        (Health, "health", {"uptime_s": float("inf")}),
        (DecisionReceipt, "decision_receipt", {"reasons": []}),
        (DecisionReceipt, "decision_receipt", {"reasons": ["because"]}),
        (
            DecisionReceipt,
            "decision_receipt",
            {"evidence": {"mode": "crop", "name": "../x", "sha256": "a" * 64, "bytes": 1}},
        ),
    ],
)
def test_what_a_record_may_not_say(kind: Any, name: str, change: dict[str, Any]) -> None:
    fields = {**RECORDS[name].model_dump(exclude_none=True), **change}
    assert fault_of(pack(fields), kind) is WireFault.INVALID


def test_a_ledger_knows_whether_it_balances() -> None:
    assert LEDGER.balances
    assert not LEDGER.model_copy(update={"lost": 0}).balances
