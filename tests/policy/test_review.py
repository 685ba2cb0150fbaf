"""What a person may let go, at the device and from afar."""

from typing import Any

import pytest

from edge_runtime.policy import Policy, ReviewRefused, release_decision, remote_may_see, require_person
from edge_runtime.protocol import DataClass, DecisionKind, EvidenceMode, Reason

POLICY = Policy.model_validate(
    {
        "name": "site",
        "recipients": {
            "fleet": {
                "place": "organisation",
                "accepts": ["public", "internal", "confidential"],
                "purposes": ["safety", "operations"],
            },
            "vendor": {"place": "cloud", "accepts": ["public"], "purposes": ["training", "safety"]},
        },
        "remote_review": {"classes": ["internal"], "evidence": "redacted"},
    }
)


def test_a_release_goes_to_all_who_accept_the_class() -> None:
    decision = release_decision(DataClass.INTERNAL, POLICY)
    assert decision.kind is DecisionKind.SEND
    assert decision.reasons == (Reason.RELEASED_BY_PERSON,)
    assert decision.recipients == ("fleet",)
    assert decision.policy == POLICY.digest
    assert decision.purpose == "safety"
    vendor = release_decision(DataClass.PUBLIC, POLICY, to=["vendor"])
    assert (vendor.recipients, vendor.purpose) == (("vendor",), "training")
    both = release_decision(DataClass.PUBLIC, POLICY)
    assert (both.recipients, both.purpose) == (("fleet", "vendor"), "safety")
    assert release_decision(DataClass.PUBLIC, POLICY, purpose="training").recipients == ("vendor",)


@pytest.mark.parametrize(
    ("data_class", "options", "said"),
    [
        (DataClass.UNKNOWN, {}, "--class"),
        (DataClass.UNKNOWN, {"stated_class": DataClass.UNKNOWN}, "--class"),
        (DataClass.CONFIDENTIAL, {"stated_class": DataClass.PUBLIC}, "does not change a class"),
        (DataClass.RESTRICTED, {}, "no recipient"),
        (DataClass.INTERNAL, {"to": ["vendor"]}, "does not accept"),
        (DataClass.INTERNAL, {"to": ["nobody"]}, "no recipient named"),
        (DataClass.INTERNAL, {"purpose": "training"}, "does not take the purpose training"),
        (DataClass.PUBLIC, {"to": ["fleet", "vendor"], "purpose": "operations"}, "vendor does not take"),
        (DataClass.CONFIDENTIAL, {"remote": True}, "no remote review"),
        (DataClass.UNKNOWN, {"remote": True}, "no remote review"),
        (DataClass.UNKNOWN, {"remote": True, "stated_class": DataClass.INTERNAL}, "no remote review"),
        (DataClass.INTERNAL, {"remote": True, "evidence": EvidenceMode.CROP}, "redacted"),
    ],
)
def test_what_no_person_may_let_go(data_class: DataClass, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ReviewRefused, match=said):
        release_decision(data_class, POLICY, **options)


def test_without_a_policy_nobody_is_known_who_may_have_it() -> None:
    with pytest.raises(ReviewRefused, match="no policy"):
        release_decision(DataClass.INTERNAL, None)


def test_a_person_at_the_device_says_what_class_an_unlabelled_item_is() -> None:
    decision = release_decision(DataClass.UNKNOWN, POLICY, stated_class=DataClass.INTERNAL)
    assert (decision.data_class, decision.recipients) == (DataClass.INTERNAL, ("fleet",))


def test_remote_review_is_what_the_policy_says() -> None:
    assert remote_may_see(DataClass.INTERNAL, POLICY)
    assert not remote_may_see(DataClass.PUBLIC, POLICY)
    assert not remote_may_see(DataClass.UNKNOWN, POLICY)
    assert not remote_may_see(DataClass.INTERNAL, None)
    remote = release_decision(DataClass.INTERNAL, POLICY, remote=True, evidence=EvidenceMode.REDACTED)
    assert remote.evidence is EvidenceMode.REDACTED


@pytest.mark.parametrize(
    ("by", "note"), [("", "x"), ("x", " "), ("x" * 65, "y"), ("x", "y" * 201), ("a\nb", "y")]
)
def test_a_review_needs_a_name_and_a_reason(by: str, note: str) -> None:
    with pytest.raises(ReviewRefused):
        require_person(by, note)
    assert require_person(" Ada ", " seen ") == ("Ada", "seen")
