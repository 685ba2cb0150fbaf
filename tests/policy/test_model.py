"""The policy's own rules: what is refused, and what the digest depends on."""

from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.policy import Policy, policy_problems

DATA: dict[str, Any] = {
    "version": 1,
    "name": "site",
    "recipients": {"fleet": {"place": "organisation", "accepts": ["internal"], "purposes": ["safety"]}},
    "permits": [{"name": "a", "when": {"classes": ["internal"]}, "to": ["fleet"], "purpose": "safety"}],
}


def test_the_digest_is_of_what_is_meant() -> None:
    digest = Policy.model_validate(DATA).digest
    assert digest.startswith("sha256:")
    assert len(digest) == 71
    spelled_out = {**DATA, "permits": [{**DATA["permits"][0], "evidence": "none", "coalesce": 0}], "keep": []}
    assert Policy.model_validate(dict(reversed(spelled_out.items()))).digest == digest
    assert Policy.model_validate({**DATA, "name": "other"}).digest != digest
    assert Policy.model_validate({**DATA, "keep": [{"rules": ["x"]}]}).digest != digest


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"name": ""},
        {"forbid": []},
        {"recipients": {"fleet": {"place": "device", "accepts": [], "purposes": ["safety"]}}},
        {"recipients": {"Fleet": DATA["recipients"]["fleet"]}},
        {"recipients": {"fleet": {"place": "cloud", "accepts": ["unknown"], "purposes": ["safety"]}}},
        {"permits": [{**DATA["permits"][0], "when": {"classes": ["unknown"]}}]},
        {"permits": [{**DATA["permits"][0], "to": []}]},
        {"permits": [{**DATA["permits"][0], "to": ["nobody"]}]},
        {"permits": [{**DATA["permits"][0], "to": ["fleet", "fleet"]}]},
        {"permits": [{**DATA["permits"][0], "purpose": "training"}]},
        {"permits": [{**DATA["permits"][0], "when": {"classes": ["restricted"]}}]},
        {"permits": [DATA["permits"][0], DATA["permits"][0]]},
        {"permits": [{**DATA["permits"][0], "coalesce": -1}]},
        {"permits": [{**DATA["permits"][0], "coalesce": True}]},
        {"permits": [{**DATA["permits"][0], "budget": {"events_per_hour": 1.5}}]},
        {"permits": [{**DATA["permits"][0], "when": {"cameras": ["a\nb"]}}]},
        {"permits": [{**DATA["permits"][0], "when": {"cameras": "dock"}}]},
        {"keep": [{}]},
        {"remote_review": {"classes": ["internal"], "evidence": "crop"}},
        {"remote_review": {"classes": ["unknown"]}},
    ],
)
def test_what_a_policy_may_not_say(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({**DATA, **change})


def test_the_checks_bear_any_data() -> None:
    oddities: list[Any] = [
        None,
        3,
        [],
        {"permits": 3},
        {"permits": [3]},
        {"recipients": [], "permits": [{"to": 1}]},
    ]
    for nonsense in oddities:
        assert isinstance(list(policy_problems(nonsense)), list)


def test_nothing_in_it_changes() -> None:
    policy = Policy.model_validate(DATA)
    with pytest.raises(ValidationError):
        setattr(policy, "name", "x")  # noqa: B010 - the type checker knows that it is frozen
