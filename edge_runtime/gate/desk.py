"""One event at a time from a record to a submission: decide, redact, write the receipt. Fails to HOLD."""

from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.clock import Clock
from edge_runtime.gate.crops import CropMissing, Crops, store_crop
from edge_runtime.gate.policy_file import InForce
from edge_runtime.gate.recall import recall
from edge_runtime.gate.receipts import approved_body, grant_of, held_body, key_of, receipt_of
from edge_runtime.gate.redaction import RedactionFailed, Redactor, redacted
from edge_runtime.gate.ring import Waiting
from edge_runtime.outbox import EvidenceFile, Submission
from edge_runtime.policy import BudgetBook, Decision, DecisionRequest, decide
from edge_runtime.protocol import DecisionKind, EventRecord, EvidenceMode, Reason
from edge_runtime.protocol.decision import DecisionReceipt, EvidenceGrant
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision, ready for the outbox.

    Attributes:
        decision: as it came out in the end.
        submission: everything but the time to live that is left.
        deadline_ns: boot time at which its time to live ends.
    """

    decision: Decision
    submission: Submission
    deadline_ns: int

    def at(self, now_ns: int) -> Submission:
        """The submission with the time to live that is left at `now_ns` of the boot clock."""
        return self.submission._replace(ttl_ns=max(0, self.deadline_ns - now_ns))


class DecisionDesk:
    """Decides. Belongs to the gate's thread.

    Args:
        state: where crops go that leave or wait.
        crops: where crops of events come from; None where the device keeps none.
        redactor: makes redacted crops.
        clock: time of budgets and receipts.
    """

    def __init__(self, state: StateDirectory, crops: Crops | None, redactor: Redactor, clock: Clock) -> None:
        self._state = state
        self._crops = crops
        self._redactor = redactor
        self._clock = clock
        self._book = BudgetBook()
        self._log = get_logger()

    def recall(self, receipts: Sequence[bytes]) -> None:
        """Count what was let go before a restart, so that a crash gives no budget back; newest receipt first."""
        recall(self._book, receipts, self._clock)

    def settle(self, waiting: Waiting, in_force: InForce) -> Decided:
        """What becomes of one event. Never raises for what an event, a crop or a policy holds."""
        event = waiting.event
        try:
            return self._settle(event, waiting.deadline_ns, in_force)
        except Exception as error:  # noqa: BLE001 - fails to HOLD: an event must not stop the gate, nor slip past it
            self._log.error("decision failed", rule=event.rule, kind=type(error).__name__)
            policy = in_force.policy
            held = Decision(
                DecisionKind.HOLD,
                (Reason.EVALUATION_FAILED,),
                event.data_class,
                policy=None if policy is None else policy.digest,
            )
            return self._held(event, held, waiting.deadline_ns, None)

    def _settle(self, event: EventRecord, deadline_ns: int, in_force: InForce) -> Decided:
        now, where, policy = self._clock.boottime_ns(), (event.camera, event.rule), in_force.policy
        names = [] if policy is None else [permit.name for permit in policy.permits]
        usage = self._book.usage(names, where, event.id, now)
        decision = decide(DecisionRequest.of(event, usage), policy, without_policy=in_force.without)
        if decision.kind is DecisionKind.SEND:
            try:
                grant, evidence = self._evidence(event, decision)
            except CropMissing as error:
                decision = self._refused(decision, event, Reason.EVIDENCE_MISSING, error)
            except RedactionFailed as error:
                decision = self._refused(decision, event, Reason.REDACTION_FAILED, error)
            else:
                receipt = receipt_of(decision, event, self._clock, grant=grant)
                body = approved_body(event, receipt)
                size = 0 if grant is None else grant.bytes
                self._book.sent(decision.permit or "", where, event.id, size, now)
                return _decided(decision, receipt, deadline_ns, body, evidence)
        if decision.kind is DecisionKind.KEEP:
            if decision.permit is not None:
                self._book.coalesced(decision.permit, where, event.id, now)
            receipt = receipt_of(decision, event, self._clock)
            return _decided(decision, receipt, deadline_ns, b"", None)
        return self._held(event, decision, deadline_ns, self._waiting_crop(event))

    def _evidence(
        self, event: EventRecord, decision: Decision
    ) -> tuple[EvidenceGrant | None, EvidenceFile | None]:
        """The crop that may leave, in its place. Raises where there is any doubt about it."""
        if decision.evidence is EvidenceMode.NONE or event.evidence is None:
            return None, None
        if self._crops is None:
            raise CropMissing("this device keeps no crops")
        data = self._crops.read(event.evidence)
        if decision.evidence is EvidenceMode.REDACTED:
            data = redacted(self._redactor, data)
        file = store_crop(data, self._state)
        return grant_of(decision.evidence, file.sha256, file.bytes), file

    def _waiting_crop(self, event: EventRecord) -> EvidenceFile | None:
        """A copy of a held event's crop, where it can be had: the ring would soon delete it."""
        if event.evidence is None or self._crops is None:
            return None
        try:
            return store_crop(self._crops.read(event.evidence), self._state)
        except CropMissing:
            return None

    def _refused(self, decision: Decision, event: EventRecord, reason: Reason, error: Exception) -> Decision:
        self._log.warning("held", camera=event.camera, rule=event.rule, reason=reason.value, text=str(error))
        return Decision(
            DecisionKind.HOLD,
            (reason,),
            decision.data_class,
            policy=decision.policy,
            considered=decision.considered,
        )

    def _held(
        self, event: EventRecord, decision: Decision, deadline_ns: int, evidence: EvidenceFile | None
    ) -> Decided:
        receipt = receipt_of(decision, event, self._clock)
        return _decided(decision, receipt, deadline_ns, held_body(event, receipt), evidence)


def _decided(
    decision: Decision, receipt: DecisionReceipt, deadline_ns: int, body: bytes, evidence: EvidenceFile | None
) -> Decided:
    submission = Submission(
        key_of(receipt),
        decision.kind,
        receipt.severity.rank,
        0,
        body,
        receipt=receipt.encode(compress=False),
        evidence=evidence,
    )
    return Decided(decision, submission, deadline_ns)
