"""What a person may do with a held item, and what an operator may do from afar. Pure.

Two things no person can lift: a recipient gets no class that it does not accept, and an item of unknown class
needs somebody at the device who says what class it is.
"""

from collections.abc import Sequence

from edge_runtime.policy.model import Policy
from edge_runtime.policy.request import Decision
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, EvidenceMode, Reason

LONGEST_NAME = 64
LONGEST_NOTE = 200


class ReviewRefused(ValueError):
    """A release or a drop that may not be; the text says what would change that."""


def require_person(by: str, note: str) -> tuple[str, str]:
    """A reviewer's name and reason, trimmed.

    Raises:
        ReviewRefused: one is missing, too long, or holds control characters.
    """
    by, note = by.strip(), note.strip()
    for what, text, longest in (("name", by, LONGEST_NAME), ("reason", note, LONGEST_NOTE)):
        if not text:
            raise ReviewRefused(f"a review needs a {what}: say who decides, and why")
        if len(text) > longest or not text.isprintable():
            raise ReviewRefused(f"the {what} must be at most {longest} printable characters on one line")
    return by, note


def remote_may_see(data_class: DataClass, policy: Policy | None) -> bool:
    """Whether held items of a class may be listed to, released and dropped by an operator from afar."""
    if policy is None or data_class is DataClass.UNKNOWN:
        return False
    return data_class in policy.remote_review.classes


def release_decision(
    data_class: DataClass,
    policy: Policy | None,
    *,
    to: Sequence[str] = (),
    purpose: str | None = None,
    evidence: EvidenceMode = EvidenceMode.NONE,
    stated_class: DataClass | None = None,
    remote: bool = False,
) -> Decision:
    """The decision that a person's release comes to.

    Args:
        data_class: of the held item.
        policy: in force.
        to: recipients; all that accept the class and take the purpose when empty.
        purpose: what they may use it for; the first purpose of the first recipient when None.
        evidence: how much of the crop may leave.
        stated_class: what a person at the device says an item of unknown class is.
        remote: it comes from the fleet server.

    Raises:
        ReviewRefused: it may not be released so.
    """
    if remote and (stated_class is not None or not remote_may_see(data_class, policy)):
        raise ReviewRefused(
            "the policy of this device allows no remote review of this item; release it there"
        )
    if data_class is DataClass.UNKNOWN:
        if stated_class is None or stated_class is DataClass.UNKNOWN:
            raise ReviewRefused("its class is unknown: say which it is with --class, or drop it")
        data_class = stated_class
    elif stated_class is not None and stated_class is not data_class:
        raise ReviewRefused(
            f"its class is {data_class.value}; a review does not change a class that is known"
        )
    if policy is None:
        raise ReviewRefused(
            "there is no policy in force, so nobody is known who may have it; write one first"
        )
    most = policy.remote_review.evidence
    if remote and evidence.rank > EvidenceMode(most).rank:
        raise ReviewRefused(
            f"the policy lets a remote review release {most} of the crop, not {evidence.value}"
        )
    recipients, purpose = _recipients(data_class, policy, to, purpose)
    return Decision(
        DecisionKind.SEND,
        (Reason.RELEASED_BY_PERSON,),
        data_class,
        recipients=recipients,
        purpose=purpose,
        evidence=evidence,
        policy=policy.digest,
    )


def _recipients(
    data_class: DataClass, policy: Policy, to: Sequence[str], purpose: str | None
) -> tuple[tuple[str, ...], str]:
    accepting = [name for name, who in policy.recipients.items() if data_class in who.accepts]
    for name in to:
        if name not in policy.recipients:
            known = ", ".join(policy.recipients) or "none"
            raise ReviewRefused(f"there is no recipient named {name}; recipients are {known}")
        if name not in accepting:
            raise ReviewRefused(f"{name} does not accept {data_class.value}")
    chosen = list(dict.fromkeys(to)) or accepting
    if not chosen:
        raise ReviewRefused(f"no recipient of the policy accepts {data_class.value}")
    wanted = policy.recipients[chosen[0]].purposes[0] if purpose is None else purpose
    taking = tuple(name for name in chosen if wanted in policy.recipients[name].purposes)
    if not taking or (to and len(taking) < len(chosen)):
        refusing = next(name for name in chosen if name not in taking)
        raise ReviewRefused(f"{refusing} does not take the purpose {wanted}")
    return taking[:16], wanted
