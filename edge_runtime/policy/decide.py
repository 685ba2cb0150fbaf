"""The decision: pure and total. Whatever is missing, unknown or fails, the answer is HOLD and the reason is given.

Order: no policy → hold; no known class → hold; a `keep` condition that means the event → keep, and one that may
mean it → hold; then the permits in their order, of which the first that lets the event go decides. A permit that
cannot be evaluated for want of an input lets nothing go. What only repeats an event that was sent is kept.
"""

from collections.abc import Iterable
from dataclasses import replace

from edge_runtime.policy.condition import Match, meets
from edge_runtime.policy.model import Permit, Policy
from edge_runtime.policy.request import Considered, Decision, DecisionRequest, Known, Usage
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, EvidenceMode, Reason, Severity

NS_PER_S = 1_000_000_000


def decide(
    request: DecisionRequest, policy: Policy | None, *, without_policy: Reason = Reason.NO_POLICY
) -> Decision:
    """Whether an event stays, waits for a person, or may leave.

    Args:
        request: the event and what was sent before it.
        policy: in force; None where there is none.
        without_policy: why there is none.

    Returns:
        Always a decision; a defect in here is a HOLD with `evaluation_failed`.
    """
    try:
        return _decide(request, policy, without_policy)
    except Exception:  # noqa: BLE001 - total: what cannot be decided is held
        return Decision(
            DecisionKind.HOLD, (Reason.EVALUATION_FAILED,), _class_of(request), policy=_digest_of(policy)
        )


def _decide(request: DecisionRequest, policy: Policy | None, without_policy: Reason) -> Decision:
    data_class = _class_of(request)
    if policy is None:
        unlabelled = (Reason.CLASS_UNKNOWN,) if data_class is DataClass.UNKNOWN else ()
        return Decision(DecisionKind.HOLD, (without_policy, *unlabelled), data_class)
    settled = _before_permits(request, policy, data_class)
    if settled is not None:
        kind, reason = settled
        return Decision(kind, (reason,), data_class, policy=policy.digest)
    considered: list[Considered] = []
    repeat: Decision | None = None
    for permit in policy.permits:
        answer = _ask(permit, request, policy, data_class)
        considered.append(Considered(permit.name, answer.reasons))
        if answer.kind is DecisionKind.SEND:
            return replace(answer, considered=tuple(considered))
        if answer.kind is DecisionKind.KEEP and repeat is None:
            repeat = answer  # unless a later permit, which does not coalesce, lets it go
    if repeat is not None:
        return replace(repeat, considered=tuple(considered))
    # A permit that means other events says nothing about this one; only where all do, that is the reason.
    said = [reason for item in considered for reason in item.reasons if reason is not Reason.NO_PERMIT]
    reasons = _each_once(said) or (Reason.NO_PERMIT,)
    return Decision(
        DecisionKind.HOLD, reasons, data_class, policy=policy.digest, considered=tuple(considered)
    )


def _before_permits(
    request: DecisionRequest, policy: Policy, data_class: DataClass
) -> tuple[DecisionKind, Reason] | None:
    """What is settled without asking a permit."""
    if data_class is DataClass.UNKNOWN:
        return DecisionKind.HOLD, Reason.CLASS_UNKNOWN
    if not _complete(request):
        return DecisionKind.HOLD, Reason.INPUT_MISSING
    kept = [meets(rule, request) for rule in policy.keep]
    if Match.YES in kept:
        return DecisionKind.KEEP, Reason.NEVER_ESCALATE
    if Match.DOUBT in kept:
        # It may be one that must stay: this is the forbid that other engines skip when an input is missing.
        return DecisionKind.HOLD, Reason.INPUT_MISSING
    return None


def _ask(permit: Permit, request: DecisionRequest, policy: Policy, data_class: DataClass) -> Decision:
    """What one permit says of an event whose class is known; its HOLD only means `not by me`."""
    match = meets(permit.when, request)
    if match is not Match.YES:
        reason = Reason.NO_PERMIT if match is Match.NO else Reason.INPUT_MISSING
        return Decision(DecisionKind.HOLD, (reason,), data_class)
    recipients, dropped = _recipients(permit, policy, data_class)
    if not recipients:
        return Decision(DecisionKind.HOLD, dropped, data_class)
    usage = request.usage.get(permit.name)
    if usage is None or not _sound(usage):
        return Decision(DecisionKind.HOLD, (Reason.INPUT_MISSING,), data_class)
    if _repeats(permit, usage):
        return Decision(DecisionKind.KEEP, (Reason.COALESCED,), data_class, permit.name, policy=policy.digest)
    if usage.events >= permit.budget.events_per_hour:
        return Decision(DecisionKind.HOLD, (Reason.EVENT_BUDGET_SPENT,), data_class)
    evidence, without = _evidence(permit, usage, request.evidence_bytes)
    return Decision(
        DecisionKind.SEND,
        _each_once([Reason.PERMITTED, *dropped, *without]),
        data_class,
        permit.name,
        recipients,
        permit.purpose,
        evidence,
        policy.digest,
    )


def _recipients(
    permit: Permit, policy: Policy, data_class: DataClass
) -> tuple[tuple[str, ...], tuple[Reason, ...]]:
    """Who of a permit's recipients may have the class for its purpose, and why the others may not."""
    may: list[str] = []
    reasons: list[Reason] = []
    for name in permit.to:
        recipient = policy.recipients.get(name)
        if recipient is None:
            reasons.append(Reason.RECIPIENT_UNKNOWN)
        elif data_class not in recipient.accepts:
            reasons.append(Reason.RECIPIENT_REFUSES_CLASS)
        elif permit.purpose not in recipient.purposes:
            reasons.append(Reason.RECIPIENT_REFUSES_PURPOSE)
        else:
            may.append(name)
    return tuple(may), _each_once(reasons)


def _repeats(permit: Permit, usage: Usage) -> bool:
    """Whether the event only repeats what was sent. Revisions share the fate of the happening's first one."""
    if usage.known is not Known.NEW:
        return usage.known is Known.COALESCED
    return usage.since_sent_ns is not None and usage.since_sent_ns < permit.coalesce * NS_PER_S


def _evidence(permit: Permit, usage: Usage, size: int | None) -> tuple[EvidenceMode, tuple[Reason, ...]]:
    if size is None:
        return EvidenceMode.NONE, ()
    if permit.evidence is EvidenceMode.NONE:
        return EvidenceMode.NONE, (Reason.EVIDENCE_NOT_PERMITTED,)
    if usage.evidence_bytes + size > permit.budget.evidence_bytes_per_hour:
        return EvidenceMode.NONE, (Reason.EVIDENCE_BUDGET_SPENT,)
    return permit.evidence, ()


def _complete(request: DecisionRequest) -> bool:
    """Whether everything that every event has is there, of the right kind."""
    named = all(isinstance(text, str) and text for text in (request.camera, request.rule, request.kind))
    label = request.label is None or isinstance(request.label, str)
    evidence = request.evidence_bytes is None or _count(request.evidence_bytes)
    return named and label and evidence and isinstance(request.severity, Severity)


def _sound(usage: Usage) -> bool:
    since = usage.since_sent_ns is None or _count(usage.since_sent_ns)
    return _count(usage.events) and _count(usage.evidence_bytes) and since and isinstance(usage.known, Known)


def _count(value: object) -> bool:
    return type(value) is int and value >= 0


def _class_of(request: DecisionRequest) -> DataClass:
    found = getattr(request, "data_class", None)
    return found if isinstance(found, DataClass) else DataClass.UNKNOWN


def _digest_of(policy: Policy | None) -> str | None:
    try:
        return None if policy is None else policy.digest
    except Exception:  # noqa: BLE001 - what is no policy has no digest
        return None


def _each_once(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    return tuple(dict.fromkeys(reasons))
