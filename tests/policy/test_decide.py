"""Decisions one by one: each reason has a case, and whatever is missing or broken is held."""

from dataclasses import replace
from typing import Any

import pytest

from edge_runtime.policy import Decision, DecisionRequest, Known, Policy, Usage, decide, sentence
from edge_runtime.policy.condition import like
from edge_runtime.protocol import DataClass, DecisionKind, EvidenceMode, Reason, Severity

SECOND = 1_000_000_000

SITE: dict[str, Any] = {
    "name": "site",
    "recipients": {
        "fleet": {"place": "organisation", "accepts": ["public", "internal"], "purposes": ["safety"]},
        "vendor": {"place": "cloud", "accepts": ["public"], "purposes": ["safety", "training"]},
    },
    "permits": [
        {
            "name": "alerts",
            "when": {"classes": ["public", "internal"], "cameras": ["dock*"], "severity_at_least": "warning"},
            "to": ["fleet", "vendor"],
            "purpose": "safety",
            "evidence": "redacted",
            "budget": {"events_per_hour": 10, "evidence_bytes_per_hour": 10_000},
            "coalesce": 60,
        }
    ],
    "keep": [{"rules": ["heartbeat*"]}],
}

REQUEST = DecisionRequest(
    data_class=DataClass.INTERNAL,
    severity=Severity.WARNING,
    camera="dock-1",
    rule="fall",
    kind="zone_enter",
    label="person",
    evidence_bytes=4000,
    usage={"alerts": Usage()},
)


def policy(**changes: Any) -> Policy:
    return Policy.model_validate({**SITE, **changes})


def answer(request: DecisionRequest = REQUEST, in_force: Policy | None = None) -> Decision:
    return decide(request, in_force or policy())


def test_a_permit_sends_to_those_who_accept() -> None:
    decision = answer()
    assert decision.kind is DecisionKind.SEND
    assert decision.recipients == ("fleet",)
    assert decision.reasons == (Reason.PERMITTED, Reason.RECIPIENT_REFUSES_CLASS)  # vendor takes public only
    assert (decision.permit, decision.purpose) == ("alerts", "safety")
    assert decision.evidence is EvidenceMode.REDACTED
    assert decision.policy == policy().digest
    assert answer(replace(REQUEST, data_class=DataClass.PUBLIC)).recipients == ("fleet", "vendor")


def test_without_a_policy_everything_is_held() -> None:
    assert decide(REQUEST, None).reasons == (Reason.NO_POLICY,)
    broken = decide(REQUEST, None, without_policy=Reason.POLICY_UNREADABLE)
    assert (broken.kind, broken.reasons) == (DecisionKind.HOLD, (Reason.POLICY_UNREADABLE,))
    both = decide(replace(REQUEST, data_class=None), None)
    assert both.reasons == (Reason.NO_POLICY, Reason.CLASS_UNKNOWN)


@pytest.mark.parametrize("found", [None, DataClass.UNKNOWN, "internal", "secret", float("nan"), 3])
def test_without_a_known_class_everything_is_held_whatever_the_policy(found: Any) -> None:
    everything = policy(
        permits=[{"name": "alerts", "to": ["fleet"], "purpose": "safety"}], keep=[{"rules": ["*"]}]
    )
    decision = answer(replace(REQUEST, data_class=found), everything)
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (Reason.CLASS_UNKNOWN,))
    assert decision.data_class is DataClass.UNKNOWN


@pytest.mark.parametrize("field", ["severity", "camera", "rule", "kind"])
@pytest.mark.parametrize("value", [None, "", float("nan"), [], object()])
def test_a_missing_input_is_held_even_where_no_condition_asks_for_it(field: str, value: Any) -> None:
    open_to_all = policy(permits=[{"name": "alerts", "to": ["fleet"], "purpose": "safety"}], keep=[])
    decision = answer(replace(REQUEST, **{field: value}), open_to_all)
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (Reason.INPUT_MISSING,))


def test_a_permit_that_asks_for_a_missing_label_does_not_match() -> None:
    labelled = policy(permits=[{**SITE["permits"][0], "when": {"labels": ["person"]}}])
    assert answer(in_force=labelled).kind is DecisionKind.SEND
    decision = answer(replace(REQUEST, label=None), labelled)
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (Reason.INPUT_MISSING,))


def test_what_may_be_one_to_keep_is_held_not_sent() -> None:
    badges = policy(keep=[{"labels": ["badge*"]}])
    assert answer(in_force=badges).kind is DecisionKind.SEND
    assert answer(replace(REQUEST, label="badge 7"), badges).kind is DecisionKind.KEEP
    decision = answer(replace(REQUEST, label=None), badges)
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (Reason.INPUT_MISSING,))


def test_10_000_events_that_never_escalate_are_kept() -> None:
    heartbeat = replace(REQUEST, rule="heartbeat-1", severity=Severity.CRITICAL)
    site = policy()
    decisions = [decide(heartbeat, site) for _ in range(10_000)]
    assert {decision.kind for decision in decisions} == {DecisionKind.KEEP}
    assert {decision.reasons for decision in decisions} == {(Reason.NEVER_ESCALATE,)}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"camera": "gate"}, Reason.NO_PERMIT),
        ({"severity": Severity.NOTICE}, Reason.NO_PERMIT),
        ({"data_class": DataClass.RESTRICTED}, Reason.NO_PERMIT),
        ({"usage": {}}, Reason.INPUT_MISSING),
        ({"usage": {"alerts": None}}, Reason.INPUT_MISSING),
        ({"usage": {"alerts": Usage(events=10)}}, Reason.EVENT_BUDGET_SPENT),
        ({"usage": {"alerts": Usage(events=float("nan"))}}, Reason.INPUT_MISSING),  # type: ignore[arg-type]
        ({"usage": {"alerts": Usage(since_sent_ns=-1)}}, Reason.INPUT_MISSING),
        ({"usage": None}, Reason.EVALUATION_FAILED),
        ({"evidence_bytes": float("nan")}, Reason.INPUT_MISSING),
        ({"evidence_bytes": -1}, Reason.INPUT_MISSING),
    ],
)
def test_why_it_is_held(changes: dict[str, Any], reason: Reason) -> None:
    decision = answer(replace(REQUEST, **changes))
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (reason,))
    assert decision.recipients == ()


def test_recipients_that_do_not_exist_hold() -> None:
    unchecked = policy().model_copy(update={"recipients": {}})
    decision = answer(in_force=unchecked)
    assert (decision.kind, decision.reasons) == (DecisionKind.HOLD, (Reason.RECIPIENT_UNKNOWN,))


def test_recipients_that_refuse_hold() -> None:
    all_classes = policy(permits=[{**SITE["permits"][0], "when": {}}])
    decision = answer(replace(REQUEST, data_class=DataClass.CONFIDENTIAL), all_classes)
    assert decision.reasons == (Reason.RECIPIENT_REFUSES_CLASS,)
    training = policy(permits=[{**SITE["permits"][0], "purpose": "training"}])
    decision = answer(in_force=training)
    assert decision.kind is DecisionKind.HOLD
    assert decision.reasons == (Reason.RECIPIENT_REFUSES_PURPOSE, Reason.RECIPIENT_REFUSES_CLASS)


def test_evidence_is_left_out_when_its_budget_is_spent_or_it_is_not_permitted() -> None:
    spent = answer(replace(REQUEST, usage={"alerts": Usage(evidence_bytes=6001)}))
    assert spent.kind is DecisionKind.SEND
    assert spent.evidence is EvidenceMode.NONE
    assert Reason.EVIDENCE_BUDGET_SPENT in spent.reasons
    none = policy(permits=[{**SITE["permits"][0], "evidence": "none"}])
    decision = answer(in_force=none)
    assert (decision.kind, decision.evidence) == (DecisionKind.SEND, EvidenceMode.NONE)
    assert Reason.EVIDENCE_NOT_PERMITTED in decision.reasons


@pytest.mark.parametrize(
    ("usage", "kind"),
    [
        (Usage(since_sent_ns=0), DecisionKind.KEEP),
        (Usage(since_sent_ns=60 * SECOND - 1), DecisionKind.KEEP),
        (Usage(since_sent_ns=60 * SECOND), DecisionKind.SEND),
        (Usage(since_sent_ns=None), DecisionKind.SEND),
        (Usage(since_sent_ns=0, known=Known.SENT), DecisionKind.SEND),  # the end of what was sent
        (Usage(since_sent_ns=90 * SECOND, known=Known.COALESCED), DecisionKind.KEEP),
        (Usage(events=10, since_sent_ns=0), DecisionKind.KEEP),
    ],
)
def test_repeats_are_kept_and_revisions_share_the_first_ones_fate(usage: Usage, kind: DecisionKind) -> None:
    decision = answer(replace(REQUEST, usage={"alerts": usage}))
    assert decision.kind is kind
    if kind is DecisionKind.KEEP:
        assert (decision.reasons, decision.permit) == ((Reason.COALESCED,), "alerts")


def test_a_later_permit_may_let_a_repeat_go() -> None:
    urgent = {
        "name": "urgent",
        "when": {"severity_at_least": "critical"},
        "to": ["fleet"],
        "purpose": "safety",
    }
    both = policy(permits=[*SITE["permits"], urgent])
    usage = {"alerts": Usage(since_sent_ns=1), "urgent": Usage(since_sent_ns=1)}
    critical = answer(replace(REQUEST, severity=Severity.CRITICAL, usage=usage), both)
    assert (critical.kind, critical.permit) == (DecisionKind.SEND, "urgent")
    assert answer(replace(REQUEST, usage=usage), both).kind is DecisionKind.KEEP


def test_every_permit_that_was_asked_is_told() -> None:
    decision = answer(replace(REQUEST, camera="gate"))
    assert [(item.permit, item.reasons) for item in decision.considered] == [("alerts", (Reason.NO_PERMIT,))]


@pytest.mark.parametrize("nonsense", [None, 3, "event", object()])
def test_it_is_total(nonsense: Any) -> None:
    assert decide(nonsense, policy()).kind is DecisionKind.HOLD
    assert decide(REQUEST, nonsense).kind is DecisionKind.HOLD


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("dock", "dock", True),
        ("dock", "dock-1", False),
        ("dock*", "dock", True),
        ("dock*", "dock-1", True),
        ("*", "", True),
        ("*1", "dock-1", True),
        ("a*a", "a", False),
        ("a*b*c", "a-c-b-c", True),
        ("a*b*c", "acb", False),
        ("[a-z]?", "[a-z]?", True),
        ("[a-z]?", "ab", False),
        ("**", "x", True),
        ("*ab*ab", "ab", False),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:
    assert like(pattern, text) is matches


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not like("*a" * 60 + "b", "a" * 128)


def test_every_reason_has_a_sentence() -> None:
    assert all(sentence(reason) for reason in Reason)


def test_high_privacy_and_low_confidence_never_leaves() -> None:
    """Row R004-21: pseudo-code that falls back to the cloud on low confidence. Confidence is no input of ours."""
    secret = replace(REQUEST, data_class=DataClass.CONFIDENTIAL, severity=Severity.CRITICAL)
    assert answer(secret).kind is DecisionKind.HOLD
    assert "confidence" not in DecisionRequest.__slots__
