"""Frames are recorded only where the same picture could leave the device."""

from typing import Any

import pytest

from edge_runtime.config.camera import CameraConfig
from edge_runtime.policy import Policy
from edge_runtime.recording.permission import why_no_pictures


def camera(data_class: str | None) -> CameraConfig:
    return CameraConfig.model_validate(
        {"source": {"kind": "synthetic"}, "model": "m", "data_class": data_class}
    )


def policy(evidence: str = "crop", **when: Any) -> Policy:
    return Policy.model_validate(
        {
            "name": "site",
            "recipients": {
                "bench": {
                    "place": "organisation",
                    "accepts": ["public", "internal"],
                    "purposes": ["debugging"],
                }
            },
            "permits": [
                {"name": "debug", "when": when, "to": ["bench"], "purpose": "debugging", "evidence": evidence}
            ],
        }
    )


@pytest.mark.parametrize(
    ("data_class", "delivers", "policy_in_force", "said"),
    [
        ("public", False, None, ""),
        ("internal", False, None, ""),
        ("confidential", False, None, "only public and internal"),
        ("restricted", False, None, "only public and internal"),
        (None, False, None, "has no data_class"),
        ("unknown", False, None, "has no data_class"),
        (None, True, policy(), "has no data_class"),
        ("internal", True, None, "there is no policy in force"),
        ("internal", True, policy(), "lets crops leave and no whole frames"),
        ("internal", True, policy(rules=["*"]), "lets crops leave and no whole frames"),
        ("internal", True, policy("redacted", rules=["@recording"]), "redacted only"),
        ("internal", True, policy("none"), "no permit of policy site"),
        ("confidential", True, policy(), "no permit of policy site"),
        ("internal", True, policy(rules=["gate"]), "no permit of policy site"),
        ("internal", True, policy(rules=["@recording"]), ""),
        ("internal", True, policy(cameras=["other"]), "no permit of policy site"),
        ("internal", True, policy(labels=["person"]), "no permit of policy site"),
    ],
)
def test_what_the_policy_lets_leave_is_what_may_be_recorded(
    data_class: str | None, delivers: bool, policy_in_force: Policy | None, said: str
) -> None:
    found = why_no_pictures("yard", camera(data_class), delivers=delivers, policy=policy_in_force)
    assert (said in found) if said else found == ""
    assert "\n" not in found
