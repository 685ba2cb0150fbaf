"""Review on a real outbox: what a person at the device and an operator from afar may do with held items."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.gate import CropFolder, Gate, PolicyFile, RedactionFailed, read_policy
from edge_runtime.gate.review import NotHeld, Reviewer, ReviewError
from edge_runtime.outbox import OutboxSettings
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.policy import Policy
from edge_runtime.protocol import DataClass, DecisionKind, EvidenceMode, Reason
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent
from edge_runtime.state import StateDirectory
from tests.rigs.events import FakeClock
from tests.rigs.gate import POLICY, event, jpeg, put_crop

WHO: dict[str, Any] = {"by": "Ada", "note": "looked at it"}


class Desk:
    """A gate, its outbox and a reviewer on one clock."""

    def __init__(self, folder: Path) -> None:
        self.state = StateDirectory(folder / "state").ensure()
        self.clock = FakeClock()
        self.outbox = Outbox(self.state.outbox, OutboxSettings(), self.clock, evidence=self.state.evidence)
        self.policy: Policy | None = self.read(POLICY)
        self.reviewer = Reviewer(self.outbox, lambda: self.policy, self.state, self.clock)

    def read(self, text: str) -> Policy:
        self.state.policy.write_text(text)
        return read_policy(self.state.policy)

    def hold(self, *changes: dict[str, Any]) -> list[str]:
        """Give events to the gate; the keys of what it then holds."""
        gate = Gate(
            self.outbox,
            PolicyFile(self.state.policy, self.clock),
            self.state,
            crops=CropFolder(self.state.path / "ring"),
            clock=self.clock,
        )
        gate.start()
        for number, change in enumerate(changes):
            gate.write(event(self.clock, **{"id": f"e{number}", "severity": "notice", **change}))
        assert gate.close(20.0)
        return [item.key for item in self.reviewer.held()]

    def sent(self) -> list[ApprovedEvent]:
        return [ApprovedEvent.decode(item.body) for item in self.outbox.lease(100, 1_000_000)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    assert desk.outbox.status().ledger.balances
    desk.outbox.close()


def test_a_release_moves_an_item_to_the_queue_with_its_time_to_live(desk: Desk) -> None:
    (key,) = desk.hold({"ttl_s": 100.0})
    desk.clock.pass_s(40)
    receipt = desk.reviewer.release(key, **WHO)
    (item,) = desk.outbox.lease(10, 100_000)
    sent = ApprovedEvent.decode(item.body)
    assert sent.decision == receipt
    assert item.key == uuid.UUID(receipt.id).bytes
    assert 59_000 <= item.left_ms <= 60_000
    assert (receipt.by, receipt.note, receipt.recipients) == ("Ada", "looked at it", ("fleet",))
    assert (receipt.decision, receipt.reasons) == (DecisionKind.SEND, (Reason.RELEASED_BY_PERSON,))
    assert receipt.policy == read_policy(desk.state.policy).digest
    assert desk.reviewer.held() == []
    with pytest.raises(NotHeld):
        desk.reviewer.release(key, **WHO)
    assert len(desk.sent()) == 0  # leased already, and there was only one


def test_a_drop_is_a_decision_with_a_name(desk: Desk) -> None:
    (key,) = desk.hold({})
    receipt = desk.reviewer.drop(key, **WHO)
    assert (receipt.decision, receipt.reasons) == (DecisionKind.KEEP, (Reason.DROPPED_BY_PERSON,))
    newest = DecisionReceipt.decode(desk.outbox.decisions(1)[0])
    assert newest == receipt
    assert desk.outbox.status().gate["dropped"] == 1
    with pytest.raises(NotHeld):
        desk.reviewer.drop(key, **WHO)


def test_evidence_goes_with_it_only_as_asked(desk: Desk) -> None:
    ref = put_crop(desk.state.path / "ring", jpeg(2)).model_dump()
    keys = desk.hold({"evidence": ref}, {"evidence": ref}, {"evidence": ref}, {})
    modes = (EvidenceMode.NONE, EvidenceMode.REDACTED, EvidenceMode.CROP)
    receipts = [
        desk.reviewer.release(key, evidence=mode, **WHO) for key, mode in zip(keys, modes, strict=False)
    ]
    assert receipts[0].evidence is None
    assert receipts[1].evidence is not None
    assert receipts[1].evidence.sha256 != ref["sha256"]
    assert receipts[2].evidence is not None
    assert receipts[2].evidence.sha256 == ref["sha256"]
    by_id = {sent.event.id: sent.event for sent in desk.sent()}
    assert by_id["e0"].evidence is None  # not even its name
    with pytest.raises(ReviewError, match="no crop waits"):
        desk.reviewer.release(keys[3], evidence=EvidenceMode.CROP, **WHO)


def test_a_redaction_that_fails_leaves_the_item_held(desk: Desk) -> None:
    class Failing:
        def redact(self, data: bytes) -> bytes:
            raise RedactionFailed("in doubt")

    ref = put_crop(desk.state.path / "ring", jpeg(2)).model_dump()
    (key,) = desk.hold({"evidence": ref})
    reviewer = Reviewer(desk.outbox, lambda: desk.policy, desk.state, desk.clock, Failing())
    with pytest.raises(ReviewError, match="in doubt"):
        reviewer.release(key, evidence=EvidenceMode.REDACTED, **WHO)
    assert [item.key for item in desk.reviewer.held()] == [key]


@pytest.mark.parametrize("harm", ["gone", "changed"])
def test_a_crop_that_was_exchanged_while_it_waited_does_not_leave_redacted(desk: Desk, harm: str) -> None:
    ref = put_crop(desk.state.path / "ring", jpeg(2)).model_dump()
    (key,) = desk.hold({"evidence": ref})
    file = desk.state.evidence_file(ref["sha256"])
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(jpeg(3))
    for mode in (EvidenceMode.REDACTED, EvidenceMode.CROP):
        with pytest.raises(ReviewError):
            desk.reviewer.release(key, evidence=mode, **WHO)
    assert [item.key for item in desk.reviewer.held()] == [key]


def test_from_afar_only_what_the_policy_names_is_seen_and_moved(desk: Desk) -> None:
    internal, unknown, restricted = desk.hold({}, {"data_class": "unknown"}, {"data_class": "restricted"})
    assert [item.key for item in desk.reviewer.held(remote=True)] == [internal]
    assert (desk.reviewer.count(), desk.reviewer.count(remote=True)) == (3, 1)
    for key in (unknown, restricted):
        with pytest.raises(ReviewError, match="no remote review"):
            desk.reviewer.release(key, remote=True, stated_class=DataClass.INTERNAL, **WHO)
        with pytest.raises(ReviewError, match="no remote review"):
            desk.reviewer.drop(key, remote=True, **WHO)
    with pytest.raises(ReviewError, match="not crop"):
        desk.reviewer.release(internal, remote=True, evidence=EvidenceMode.CROP, **WHO)
    assert desk.reviewer.release(internal, remote=True, **WHO).by == "Ada"
    desk.policy = None  # it broke meanwhile
    assert desk.reviewer.held(remote=True) == []
    for act in (desk.reviewer.release, desk.reviewer.drop):
        with pytest.raises(ReviewError):
            act(restricted, remote=True, **WHO)
    assert len(desk.sent()) == 1


@pytest.mark.parametrize(
    "missing", [{"by": "", "note": "x"}, {"by": "x", "note": ""}, {"by": " ", "note": " "}]
)
def test_without_a_name_or_a_reason_nothing_happens(desk: Desk, missing: dict[str, str]) -> None:
    (key,) = desk.hold({})
    acts: list[Callable[..., object]] = [desk.reviewer.release, desk.reviewer.drop]
    for act in acts:
        with pytest.raises(ReviewError, match="needs a"):
            act(key, **missing)
    assert [item.key for item in desk.reviewer.held()] == [key]


@pytest.mark.parametrize("key", ["", "x", "0" * 31, "0" * 34, "../../etc/passwd", "zz" * 16, " " + "0" * 31])
def test_a_key_is_a_key(desk: Desk, key: str) -> None:
    with pytest.raises(ReviewError):
        desk.reviewer.show(key)


def test_a_full_queue_leaves_the_item_held(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (key,) = desk.hold({})
    desk.outbox.close()
    small = OutboxSettings(quota_bytes=65_536, reserve_share=0.9)
    desk.outbox = Outbox(desk.state.outbox, small, desk.clock, evidence=desk.state.evidence)
    try:
        reviewer = Reviewer(desk.outbox, lambda: desk.policy, desk.state, desk.clock)
        gate = Gate(desk.outbox, PolicyFile(desk.state.policy, desk.clock), desk.state, clock=desk.clock)
        gate.start()
        for number in range(60):
            gate.write(event(desk.clock, id=f"alarm-{number}", severity="critical"))
        assert gate.close(20.0)
        with pytest.raises(ReviewError, match="stays held; it was not accepted by the outbox: full"):
            reviewer.release(key, **WHO)
        assert [item.key for item in reviewer.held()] == [key]
    finally:
        desk.outbox.close()


def test_many_held_items_are_listed_page_by_page(desk: Desk) -> None:
    keys = desk.hold(*({} for _ in range(230)))
    assert len(keys) == 100
    assert len(desk.reviewer.held(1000)) == desk.reviewer.count() == 230
