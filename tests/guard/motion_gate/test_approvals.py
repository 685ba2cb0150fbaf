"""Approvals: what is signed, what is refused, and that each works once on one device for one action."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.guard.motion_gate.approvals import (
    CLOCK_SKEW_MS,
    LARGEST_TEXT,
    MOST_WAITING,
    Approvals,
    NotAnApproval,
    Statement,
    action_digest,
    parse_record,
    parse_statement,
    refusal,
)
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.motion_gate.verifier import MOST_NOTED, Question, answer, note_used
from tests.rigs.motion_gate import DEVICE, KEY, STRANGER, approval, public_hex

NOW_MS = 1_790_000_000_000
TIP = frozenset({"tip"})


def test_the_digest_is_one_that_other_languages_can_compute() -> None:
    import hashlib

    text = b"edge-runtime action v1\ncart-7\ntip\na=3ff0000000000000\nb=c000000000000000"
    assert action_digest("cart-7", "tip", {"b": -2.0, "a": 1}) == hashlib.sha256(text).hexdigest()


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(), min_size=1), st.data())
def test_the_digest_binds_every_value(values: dict[str, float], data: st.DataObject) -> None:
    digest = action_digest("d", "x", values)
    assert digest == action_digest("d", "x", dict(reversed(values.items())))
    name = data.draw(st.sampled_from(sorted(values)))
    other = data.draw(st.floats())
    same = struct.pack(">d", other + 0.0) == struct.pack(">d", values[name] + 0.0)
    assert (action_digest("d", "x", values | {name: other}) == digest) is same
    assert action_digest("e", "x", values) != digest
    assert action_digest("d", "y", values) != digest


def test_minus_zero_is_zero() -> None:
    assert action_digest("d", "x", {"a": -0.0}) == action_digest("d", "x", {"a": 0.0})


def test_a_record_comes_back() -> None:
    record = parse_record(approval(NOW_MS))
    assert record.key == "lead"
    assert len(record.signature) == 64
    assert json.loads(record.text)["device"] == DEVICE


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


GOOD = {"text": b64(b"x"), "key": "k", "signature": b64(bytes(64))}


@pytest.mark.parametrize(
    "change",
    [
        {"key": ""},
        {"key": "k" * 65},
        {"key": 1},
        {"text": ""},
        {"text": b64(b"x" * (LARGEST_TEXT + 1))},
        {"text": 7},
        {"text": "*"},
        {"text": "é"},
        {"text": "eA"},
        {"signature": b64(bytes(63))},
        {"signature": b64(bytes(65))},
        {"signature": None},
        {"more": 1},
    ],
)
def test_what_is_no_record(change: dict[str, Any]) -> None:
    with pytest.raises(NotAnApproval):
        parse_record(GOOD | change)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"more": 1}, "an approval has the keys text, key and signature"),
        ({"key": ""}, "key: 1 to 64 characters"),
        ({"text": ""}, "text: 1 to 600 bytes; signature: 64 bytes"),
        ({"text": 7}, "text and signature are base64"),
        ({"text": "*"}, "text and signature are base64"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotAnApproval) as caught:
        parse_record(GOOD | change)
    assert str(caught.value) == sentence


def test_records_at_the_edge() -> None:
    assert parse_record(GOOD | {"key": "k" * 64}).key == "k" * 64
    assert len(parse_record(GOOD | {"text": b64(b"x" * LARGEST_TEXT)}).text) == LARGEST_TEXT
    values: list[object] = [None, [], "x", 1, {}, {"text": GOOD["text"], "key": "k"}]
    for value in values:
        with pytest.raises(NotAnApproval):
            parse_record(value)


SAID: dict[str, Any] = {
    "approval": "0123456789abcdef",
    "device": "cart-7",
    "action": "tip",
    "digest": "00",
    "issued_ms": 5,
    "expires_ms": 9,
}


@pytest.mark.parametrize(
    "change",
    [
        {"approval": "0123456789abcde"},
        {"approval": "a" * 65},
        {"approval": "../../etc/passwd-x"},
        {"approval": "ABCDEFGHIJKLMNOPQ"},
        {"approval": "0123456789abcdeX"},
        {"approval": "0123456789abcde\0"},
        {"approval": 1234567890123456},
        {"device": None},
        {"action": 1},
        {"digest": []},
        {"issued_ms": -1},
        {"issued_ms": 1.5},
        {"issued_ms": True},
        {"expires_ms": "9"},
        {"expires_ms": 1 << 53},
        {"more": 1},
    ],
)
def test_what_is_no_statement(change: dict[str, Any]) -> None:
    with pytest.raises(NotAnApproval):
        parse_statement(json.dumps(SAID | change).encode())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"more": 1}, "the signed text has the keys action, approval, device, digest, expires_ms, issued_ms"),
        ({"device": 1}, "approval, device, action and digest are texts"),
        ({"issued_ms": "5"}, "issued_ms and expires_ms are whole milliseconds since 1970"),
        ({"approval": "short"}, "approval: 16 to 64 characters of a-z, 0-9 and -"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotAnApproval) as caught:
        parse_statement(json.dumps(SAID | change).encode())
    assert str(caught.value) == sentence
    with pytest.raises(NotAnApproval) as caught:
        parse_statement(b"{")
    assert str(caught.value) == "the signed text is not JSON"


def test_statements_at_the_edge() -> None:
    assert parse_statement(json.dumps(SAID).encode()) == Statement(**SAID)
    edge = SAID | {"approval": "z9-" + "a" * 61, "issued_ms": 0, "expires_ms": (1 << 53) - 1}
    assert parse_statement(json.dumps(edge).encode()).expires_ms == (1 << 53) - 1
    twice = json.dumps(SAID)[:-1] + ', "device": "cart-8"}'
    for text in (b"", b"\xff", b"[]", b"1", b"{}", twice.encode(), b"[" * 600):
        with pytest.raises(NotAnApproval):
            parse_statement(text)


@pytest.mark.parametrize(
    ("change", "now_ms", "reason"),
    [
        ({}, 1_000, None),
        ({"device": "cart-8"}, 1_000, Reason.APPROVAL_DEVICE),
        ({"action": "drive"}, 1_000, Reason.APPROVAL_ACTION),
        ({}, 1_999, None),
        ({}, 2_000, Reason.APPROVAL_EXPIRED),
        ({"issued_ms": 1_000 + CLOCK_SKEW_MS, "expires_ms": 1_900 + CLOCK_SKEW_MS}, 1_000, None),
        (
            {"issued_ms": 1_001 + CLOCK_SKEW_MS, "expires_ms": 1_900 + CLOCK_SKEW_MS},
            1_000,
            Reason.APPROVAL_EXPIRED,
        ),
        ({"issued_ms": 2_000}, 1_000, Reason.APPROVAL_EXPIRED),
        ({"issued_ms": 2_001}, 1_000, Reason.APPROVAL_EXPIRED),
        ({"issued_ms": 999}, 1_000, Reason.APPROVAL_EXPIRED),
        ({"issued_ms": 1_999}, 1_999, None),
    ],
)
def test_what_a_signed_statement_is_good_for(
    change: dict[str, Any], now_ms: int, reason: Reason | None
) -> None:
    said: dict[str, Any] = {
        "approval": "0" * 16,
        "device": DEVICE,
        "action": "tip",
        "digest": "",
        "issued_ms": 1_000,
    }
    statement = Statement(**(said | {"expires_ms": 2_000} | change))
    assert refusal(statement, device=DEVICE, risky=TIP, longest_ms=1_000, now_ms=now_ms) is reason


def test_approvals_wait_until_they_expire() -> None:
    waiting = Approvals()
    assert waiting.add("a", 100, 0) is None
    assert waiting.holds("a", 99)
    assert not waiting.holds("a", 100)
    assert not waiting.holds("b", 0)
    waiting.spend("b")
    waiting.spend("a")
    assert not waiting.holds("a", 0)
    assert waiting.add("a", 100, 0) is None
    assert waiting.add("a", 200, 0) is None
    assert len(waiting) == 1
    assert waiting.holds("a", 199)
    waiting.clear()
    assert len(waiting) == 0


def test_so_many_wait_and_no_more() -> None:
    waiting = Approvals()
    for at in range(MOST_WAITING):
        assert waiting.add(str(at), 100 + at, 0) is None
    assert waiting.add("more", 200, 99) is Reason.APPROVAL_BUSY
    assert not waiting.holds("more", 99)
    assert waiting.add("3", 300, 99) is None  # one that waits already
    assert waiting.add("more", 200, 100) is None  # the first expired
    assert len(waiting) == MOST_WAITING


# -- the verifier -----------------------------------------------------------------------------------------


def question(folder: Path, record: object, **given: Any) -> Question:
    told: dict[str, Any] = {
        "device": DEVICE,
        "risky": ["tip"],
        "longest_ms": 600_000,
        "keys": {"lead": public_hex(KEY), "deputy": public_hex(STRANGER)},
        "used": str(folder),
    }
    return Question(record=record, **(told | given))


def test_a_good_approval_is_good_once(tmp_path: Path) -> None:
    record = approval(NOW_MS)
    digest = action_digest(DEVICE, "tip", {"tip_deg": 30.0})
    assert answer(question(tmp_path, record), NOW_MS + 1_000) == {"digest": digest, "remaining_ms": 59_000}
    assert answer(question(tmp_path, record), NOW_MS + 1_000) == {"refused": "approval_used"}
    again = approval(NOW_MS, approval="0123456789abcdeg")
    assert "digest" in answer(question(tmp_path, again), NOW_MS)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"device": "cart-8"}, "approval_device"),
        ({"action": "drive"}, "approval_action"),
        ({"key": STRANGER}, "approval_signature"),
        ({"name": "deputy"}, "approval_signature"),
        ({"name": "nobody"}, "approval_signature"),
        ({"expires_ms": NOW_MS}, "approval_expired"),
        ({"expires_ms": NOW_MS + 600_001}, "approval_expired"),
        (
            {"issued_ms": NOW_MS + 10 * CLOCK_SKEW_MS, "expires_ms": NOW_MS + 11 * CLOCK_SKEW_MS},
            "approval_expired",
        ),
        ({"approval": "../../../etc/cron.d/x"}, "approval_malformed"),
    ],
)
def test_an_approval_that_is_none(tmp_path: Path, given: dict[str, Any], refused: str) -> None:
    assert answer(question(tmp_path, approval(NOW_MS, **given)), NOW_MS) == {"refused": refused}
    assert list(tmp_path.iterdir()) == []


def test_a_changed_text_is_not_signed(tmp_path: Path) -> None:
    record = approval(NOW_MS)
    text = base64.b64decode(record["text"])
    for changed in (text.replace(b"cart-7", b"cart-8"), text + b" ", text[:-1]):
        refused = answer(question(tmp_path, record | {"text": b64(changed)}), NOW_MS)
        assert refused == {"refused": "approval_signature"}


def test_another_signed_text_of_ours_is_no_approval(tmp_path: Path) -> None:
    record = approval(NOW_MS)
    bare = KEY.sign(base64.b64decode(record["text"]))
    assert answer(question(tmp_path, record | {"signature": b64(bare)}), NOW_MS) == {
        "refused": "approval_signature"
    }


@pytest.mark.parametrize("record", [None, {}, [], "x", {"text": 1, "key": 2, "signature": 3}])
def test_what_is_no_approval_is_malformed(tmp_path: Path, record: object) -> None:
    assert answer(question(tmp_path, record), NOW_MS) == {"refused": "approval_malformed"}


def test_used_ones_are_forgotten_when_they_are_long_over(tmp_path: Path) -> None:
    def statement(at: int) -> Statement:
        return Statement(f"{at:016d}", DEVICE, "tip", "", 0, 1_000)

    assert note_used(tmp_path, statement(1), 500, 100) is None
    assert note_used(tmp_path, statement(2), 1_100, 100) is None
    assert len(list(tmp_path.iterdir())) == 2
    assert note_used(tmp_path, statement(3), 1_101, 100) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{3:016d}"]
    (tmp_path / f"{4:016d}").write_text("torn")
    assert (
        note_used(tmp_path, statement(4), 9_999, 100) is Reason.APPROVAL_USED
    )  # what cannot be read is kept


def test_there_is_room_for_so_many_used_ones(tmp_path: Path) -> None:
    for at in range(MOST_NOTED - 1):
        (tmp_path / f"{at:016d}").write_text("1000")
    last, more = (Statement("z" * 16 + str(at), DEVICE, "tip", "", 0, 1_000) for at in range(2))
    assert note_used(tmp_path, last, 500, 100) is None
    assert note_used(tmp_path, more, 500, 100) is Reason.APPROVAL_BUSY


def test_two_at_the_same_time_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    first = Statement("0" * 16, DEVICE, "tip", "", 0, 1_000)
    assert note_used(tmp_path, first, 500, 100) is None
    assert note_used(tmp_path, first, 500, 100) is Reason.APPROVAL_USED


def test_without_its_folder_nothing_is_approved(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        answer(question(tmp_path / "missing", approval(NOW_MS)), NOW_MS)
