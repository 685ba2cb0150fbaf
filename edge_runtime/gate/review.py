"""Review of held items: list, show, release, drop, each with the name of a person and their reason.

The command line at the device and a command of the fleet server use the same functions; `remote` says which it is,
and a remote one sees and moves only what the policy's `remote_review` names.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.gate.crops import CropMissing, read_crop, store_crop
from edge_runtime.gate.receipts import approved_body, grant_of, key_of, receipt_of
from edge_runtime.gate.redaction import RedactionFailed, Redactor, WholeBlur, redacted
from edge_runtime.outbox import EvidenceFile, HeldEntry, HeldItem, PutResult, Submission
from edge_runtime.policy import (
    Decision,
    Policy,
    ReviewRefused,
    release_decision,
    remote_may_see,
    require_person,
)
from edge_runtime.protocol import DataClass, DecisionKind, EventRecord, EvidenceMode, Reason, WireError
from edge_runtime.protocol.decision import DecisionReceipt, EvidenceGrant
from edge_runtime.protocol.delivery import ApprovedEvent
from edge_runtime.protocol.operation import HeldItem as HeldRecord
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger

_PAGE = 100


class HeldPort(Protocol):
    """What a review needs of the outbox, in this process or another."""

    def held(self, limit: int, after: bytes = b"", /) -> list[HeldEntry]:
        """Held events, oldest first."""
        ...

    def held_item(self, key: bytes, /) -> HeldItem | None:
        """One with its content."""
        ...

    def release(self, key: bytes, item: Submission, /) -> PutResult | None:
        """Move it to the queue; None when it is not held."""
        ...

    def drop(self, key: bytes, receipt: bytes, /, *, decision_key: bytes | None = None) -> bool:
        """Give it up; whether it was held."""
        ...


class ReviewError(EdgeRuntimeError):
    """A held item cannot be reviewed so; the text says what would change that."""


class NoKey(ReviewError):
    """What was given names no item at all."""

    exit_code = 2


class NotHeld(ReviewError):
    """No item of that name is held, or it may not be seen from where the question comes."""


@dataclass(frozen=True, slots=True)
class HeldContent:
    """One held item as a person at the device sees it.

    Attributes:
        receipt: of the decision that holds it.
        event: its content.
        left_ms: until it expires.
        crop: its crop's file, or None.
    """

    receipt: DecisionReceipt
    event: EventRecord
    left_ms: int
    crop: EvidenceFile | None


class Reviewer:
    """Reviews what the gate holds.

    Args:
        outbox: that keeps the held items.
        policy: gives the policy in force.
        state: where crops wait.
        clock: says when a decision was made.
        redactor: makes redacted crops.
    """

    def __init__(
        self,
        outbox: HeldPort,
        policy: Callable[[], Policy | None],
        state: StateDirectory,
        clock: Clock,
        redactor: Redactor | None = None,
    ) -> None:
        self._outbox = outbox
        self._policy = policy
        self._state = state
        self._clock = clock
        self._redactor = redactor or WholeBlur()
        self._log = get_logger()

    def held(self, limit: int = _PAGE, *, remote: bool = False) -> list[HeldRecord]:
        """Held items, oldest first, without content.

        Args:
            limit: at most so many.
            remote: only those that policy lets the fleet operator know of.
        """
        policy = self._policy()
        found: list[HeldRecord] = []
        for entry, receipt in self._entries():
            if len(found) >= limit:
                break
            if not remote or remote_may_see(receipt.data_class, policy):
                found.append(
                    HeldRecord(key=entry.key.hex(), receipt=receipt, left_ms=entry.left_ms, bytes=entry.bytes)
                )
        return found

    def count(self, *, remote: bool = False) -> int:
        """How many items are held, or of these how many the fleet operator may know of."""
        policy = self._policy()
        return sum(
            1 for _, receipt in self._entries() if not remote or remote_may_see(receipt.data_class, policy)
        )

    def show(self, key: str) -> HeldContent:
        """One item with its content, for a person at the device.

        Raises:
            NotHeld: it is not held.
            ReviewError: what is kept of it cannot be read.
        """
        item = self._item(key)
        event, receipt = _content(item)
        return HeldContent(receipt, event, item.left_ms, item.evidence)

    def release(
        self,
        key: str,
        *,
        by: str,
        note: str,
        to: Sequence[str] = (),
        purpose: str | None = None,
        evidence: EvidenceMode = EvidenceMode.NONE,
        stated_class: DataClass | None = None,
        remote: bool = False,
    ) -> DecisionReceipt:
        """Let a held item go.

        Args:
            key: of the item, 32 hexadecimal digits.
            by: name of the person who decides.
            note: that person's reason.
            to: recipients; all that accept its class and take the purpose when empty.
            purpose: what they may use it for; the first of the first recipient when None.
            evidence: how much of its crop goes with it.
            stated_class: what a person at the device says an item of unknown class is.
            remote: it is a command of the fleet server.

        Returns:
            The receipt of the person's decision; its id is the delivery key.

        Raises:
            NotHeld: it is not held, or may not be seen from there.
            ReviewError: it may not be released so, or the queue has no room.
        """
        item = self._item(key)
        event, held = _content(item)
        try:
            by, note = require_person(by, note)
            decision = release_decision(
                held.data_class,
                self._policy(),
                to=to,
                purpose=purpose,
                evidence=evidence,
                stated_class=stated_class,
                remote=remote,
            )
            grant, file = self._evidence(item, evidence)
        except (ReviewRefused, CropMissing, RedactionFailed) as error:
            raise ReviewError(str(error)) from None
        receipt = receipt_of(decision, event, self._clock, grant=grant, by=by, note=note)
        submission = Submission(
            key_of(receipt),
            DecisionKind.SEND,
            item.severity,
            item.left_ms * NS_PER_MS,
            approved_body(event, receipt),
            receipt=receipt.encode(compress=False),
            evidence=file,
        )
        result = self._outbox.release(item.key, submission)
        if result is None:
            raise NotHeld(f"{key} is no longer held")
        if not result.accepted:
            why = "the outbox" if result.reason is None else f"the outbox: {result.reason.value}"
            raise ReviewError(f"{key} stays held; it was not accepted by {why}")
        self._log.info("released", item=key, decision=receipt.id, remote=remote)
        return receipt

    def drop(self, key: str, *, by: str, note: str, remote: bool = False) -> DecisionReceipt:
        """Give a held item up.

        Args:
            key: of the item, 32 hexadecimal digits.
            by: name of the person who decides.
            note: that person's reason.
            remote: it is a command of the fleet server.

        Raises:
            NotHeld: it is not held, or may not be seen from there.
            ReviewError: a name or a reason is missing, or policy does not let a remote person decide.
        """
        item = self._item(key)
        event, held = _content(item)
        policy = self._policy()
        if remote and not remote_may_see(held.data_class, policy):
            raise ReviewError("the policy of this device allows no remote review of this item; drop it there")
        try:
            by, note = require_person(by, note)
        except ReviewRefused as error:
            raise ReviewError(str(error)) from None
        decision = Decision(
            DecisionKind.KEEP,
            (Reason.DROPPED_BY_PERSON,),
            held.data_class,
            policy=None if policy is None else policy.digest,
        )
        receipt = receipt_of(decision, event, self._clock, by=by, note=note)
        if not self._outbox.drop(item.key, receipt.encode(compress=False), decision_key=key_of(receipt)):
            raise NotHeld(f"{key} is no longer held")
        self._log.info("dropped", item=key, decision=receipt.id, remote=remote)
        return receipt

    def _evidence(
        self, item: HeldItem, mode: EvidenceMode
    ) -> tuple[EvidenceGrant | None, EvidenceFile | None]:
        if mode is EvidenceMode.NONE:
            return None, None
        file = item.evidence
        if file is None:
            raise CropMissing("no crop waits beside this item; release it without --evidence")
        # What the person looked at must be what leaves: the file is held against its digest once more.
        data = read_crop(self._state.evidence_file(file.sha256), file.sha256, file.bytes)
        if mode is EvidenceMode.REDACTED:
            file = store_crop(redacted(self._redactor, data), self._state)
        return grant_of(mode, file.sha256, file.bytes), file

    def _item(self, key: str) -> HeldItem:
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            raw = b""
        if len(raw) != 16 or len(key) != 32:
            raise NoKey("an item is named by 32 hexadecimal digits, as edge-runtime gate list shows them")
        item = self._outbox.held_item(raw)
        if item is None:
            raise NotHeld(f"nothing named {key} is held")
        return item

    def _entries(self) -> Iterator[tuple[HeldEntry, DecisionReceipt]]:
        """Every held item, page by page; what has no readable receipt is passed over."""
        after = b""
        while True:
            page = self._outbox.held(_PAGE, after)
            read = [(entry, _receipt(entry)) for entry in page]
            yield from ((entry, receipt) for entry, receipt in read if receipt is not None)
            if len(page) < _PAGE:
                return
            after = page[-1].key


def redacts(receipt: DecisionReceipt) -> bool:
    """Whether a redacted crop goes with a released item."""
    return receipt.evidence is not None and receipt.evidence.mode is EvidenceMode.REDACTED


def _receipt(entry: HeldEntry) -> DecisionReceipt | None:
    try:
        return entry.decision()
    except WireError:
        get_logger().warning("a held item has no readable receipt", item=entry.key.hex())
        return None


def _content(item: HeldItem) -> tuple[EventRecord, DecisionReceipt]:
    try:
        held = ApprovedEvent.decode(item.body)
    except WireError as error:
        raise ReviewError(f"what is kept of it cannot be read: {error}") from None
    return held.event, held.decision
