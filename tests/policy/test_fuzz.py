"""20,000 decisions: none lets out what must not leave, and with complete inputs another engine agrees with each."""

import fnmatch
import math
import random
from collections import Counter
from typing import Any

import cedarpy
import pytest

from edge_runtime.policy import Decision, DecisionRequest, Policy, decide
from edge_runtime.protocol import DataClass, DecisionKind, EvidenceMode, Reason, Severity
from tests.rigs.cedar import cedar_policies, cedar_request
from tests.rigs.policies import random_policy, random_request

POLICIES, EACH = 400, 50
REQUESTS = POLICIES * EACH


def forbidden(request: DecisionRequest, policy: Policy, decision: Decision) -> str | None:
    """Why this SEND may never be, found without any code of the decision; None where it may.

    Works on the policy's plain data and with the standard library's own patterns, and knows nothing of order.
    """
    data: dict[str, Any] = policy.model_dump(mode="json")
    kind = request.data_class.value if isinstance(request.data_class, DataClass) else "unknown"
    if kind == "unknown":
        return "no class"
    permit = next((item for item in data["permits"] if item["name"] == decision.permit), None)
    if permit is None:
        return "no permit of that name"
    if not _certainly(permit["when"], request, kind):
        return "the permit does not certainly mean the event"
    if any(_possibly(keep, request, kind) for keep in data["keep"]):
        return "it may be one that stays"
    if not decision.recipients:
        return "nobody may have it"
    for name in decision.recipients:
        who = data["recipients"].get(name)
        if name not in permit["to"] or who is None:
            return "a recipient that the permit does not name"
        if kind not in who["accepts"] or permit["purpose"] not in who["purposes"]:
            return "a recipient that refuses"
    usage = request.usage[permit["name"]]
    if not _natural(usage.events) or not usage.events < permit["budget"]["events_per_hour"]:
        return "the budget is spent, or nobody knows"
    order = [mode.value for mode in EvidenceMode]
    if order.index(decision.evidence.value) > order.index(permit["evidence"]):
        return "more evidence than permitted"
    if decision.evidence is not EvidenceMode.NONE:
        size = request.evidence_bytes
        if (
            not isinstance(size, int)
            or usage.evidence_bytes + size > permit["budget"]["evidence_bytes_per_hour"]
        ):
            return "more evidence than its budget"
    if decision.data_class.value != kind or decision.policy != policy.digest:
        return "another class or policy than was asked"
    return None


_FIELDS = {"cameras": "camera", "rules": "rule", "kinds": "kind", "labels": "label"}
_RANKS = {"info": 0, "notice": 1, "warning": 2, "critical": 3}


def _certainly(condition: dict[str, Any], request: DecisionRequest, kind: str) -> bool:
    return all(answer is True for answer in _answers(condition, request, kind))


def _possibly(condition: dict[str, Any], request: DecisionRequest, kind: str) -> bool:
    return not any(answer is False for answer in _answers(condition, request, kind))


def _answers(condition: dict[str, Any], request: DecisionRequest, kind: str) -> list[bool | None]:
    answers: list[bool | None] = []
    if condition["classes"]:
        answers.append(kind in condition["classes"])
    for field, attribute in _FIELDS.items():
        patterns = condition[field]
        if patterns:
            value = getattr(request, attribute)
            known = isinstance(value, str) and value != ""
            answers.append(any(fnmatch.fnmatchcase(value, item) for item in patterns) if known else None)
    if condition["severity_at_least"] is not None:
        least, severity = _RANKS[condition["severity_at_least"]], request.severity
        answers.append(_RANKS[severity.value] >= least if isinstance(severity, Severity) else None)
    return answers


def _natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def test_no_decision_of_20_000_lets_out_what_must_not_leave() -> None:
    rng = random.Random(20_000)
    kinds: Counter[str] = Counter()
    reasons: Counter[Reason] = Counter()
    wrong: list[str] = []
    for _ in range(POLICIES):
        policy = random_policy(rng)
        for number in range(EACH):
            request = random_request(rng, policy, complete=number % 2 == 0)
            decision = decide(request, policy)
            kinds[decision.kind.value] += 1
            reasons.update(decision.reasons)
            assert decision.reasons
            if decision.kind is DecisionKind.SEND:
                why = forbidden(request, policy, decision)
                if why is not None:
                    wrong.append(why)
            else:
                assert decision.recipients == ()
                assert decision.evidence is EvidenceMode.NONE
    assert sum(kinds.values()) == REQUESTS == 20_000
    assert wrong == []
    # the fuzz would prove nothing if hardly anything were sent, or some reasons never came up
    assert kinds["send"] > 1000
    assert kinds["keep"] > 500
    seen = {
        Reason.PERMITTED,
        Reason.NEVER_ESCALATE,
        Reason.COALESCED,
        Reason.CLASS_UNKNOWN,
        Reason.NO_PERMIT,
        Reason.RECIPIENT_REFUSES_CLASS,
        Reason.RECIPIENT_REFUSES_PURPOSE,
        Reason.INPUT_MISSING,
        Reason.EVENT_BUDGET_SPENT,
        Reason.EVIDENCE_BUDGET_SPENT,
        Reason.EVIDENCE_NOT_PERMITTED,
    }
    assert seen <= set(reasons)


def test_the_checker_finds_a_decision_that_was_tampered_with() -> None:
    rng = random.Random(3)
    found: Counter[str] = Counter()
    for _ in range(600):
        policy = random_policy(rng)
        request = random_request(rng, policy, complete=True)
        decision = decide(request, policy)
        if decision.kind is DecisionKind.SEND:
            continue
        names = [permit.name for permit in policy.permits] or ["none"]
        forged = Decision(
            DecisionKind.SEND,
            (Reason.PERMITTED,),
            decision.data_class,
            permit=rng.choice(names),
            recipients=tuple(policy.recipients),
            policy=policy.digest,
        )
        found[forbidden(request, policy, forged) or "let through"] += 1
    # A repeat that was coalesced, and a permit behind the first, are the only ones it cannot know to be wrong.
    assert found["let through"] < 0.12 * sum(found.values())
    assert len(found) >= 6


@pytest.mark.parametrize("seed", range(4))
def test_cedar_allows_what_is_sent_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    asked, sent = 0, 0
    for _ in range(POLICIES // 4):
        policy = random_policy(rng)
        requests = [random_request(rng, policy, complete=True) for _ in range(EACH)]
        oracle = cedarpy.PolicySet.from_str(cedar_policies(policy))
        answers = cedarpy.is_authorized_batch([cedar_request(item) for item in requests], oracle, [])
        for request, answer in zip(requests, answers, strict=True):
            assert not answer.diagnostics.errors
            ours = decide(request, policy).kind is DecisionKind.SEND
            assert ours == answer.allowed, (policy.model_dump(mode="json"), request)
            asked, sent = asked + 1, sent + ours
    assert asked == REQUESTS // 4
    assert 0.02 < sent / asked < 0.9


def test_where_an_input_of_a_forbid_is_missing_cedar_allows_and_ours_holds() -> None:
    policy = Policy.model_validate(
        {
            "name": "site",
            "recipients": {
                "fleet": {"place": "organisation", "accepts": ["internal"], "purposes": ["safety"]}
            },
            "permits": [{"name": "all", "to": ["fleet"], "purpose": "safety"}],
            "keep": [{"labels": ["badge*"]}],
        }
    )
    rng = random.Random(1)
    request = random_request(rng, policy, complete=True)
    request = DecisionRequest(
        DataClass.INTERNAL, request.severity, "dock-1", "fall", "zone_enter", None, None, request.usage
    )
    theirs = cedarpy.is_authorized(
        {
            "principal": 'Gate::"device"',
            "action": 'Action::"send"',
            "resource": 'Event::"event"',
            "context": {"class": "internal"},
        },
        'permit (principal, action, resource) when { context.class == "internal" };'
        'forbid (principal, action, resource) when { context.label like "badge*" };',
        [],
    )
    assert theirs.allowed  # the forbid could not be evaluated, and was skipped
    decision = decide(request, policy)
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (Reason.INPUT_MISSING,))
