"""Policies and questions by the thousand: what the fuzz of the decision draws from, complete or with gaps."""

import random
from typing import Any

from edge_runtime.policy import DecisionRequest, Known, Policy, Usage, policy_problems
from edge_runtime.protocol import DataClass, Severity

CLASSES = ("public", "internal", "confidential", "restricted")
CAMERAS = ("dock-1", "dock-2", "gate", "yard.north", "doc*k")
RULES = ("fall", "crossing", "heartbeat", "@camera")
KINDS = ("zone_enter", "zone_leave", "occupancy", "camera_dark")
LABELS = ("person", "forklift", "dining table", None)
PATTERNS: dict[str, tuple[str, ...]] = {
    "cameras": ("dock*", "gate", "*", "*north", "d*k*", "yard.*", "nothing", "***"),
    "rules": ("fall", "heart*", "*ing", "@*", "*"),
    "kinds": ("zone_*", "occupancy", "*_*", "camera_dark"),
    "labels": ("person", "*table", "fork*", "*"),
}
SEVERITIES = ("info", "notice", "warning", "critical")
PURPOSES = ("operations", "safety", "training")
RECIPIENTS = ("fleet", "vendor", "night-shift")


def random_policy(rng: random.Random) -> Policy:
    """A policy that its own checks accept."""
    while True:
        data = _policy_data(rng)
        if not list(policy_problems(data)):  # a permit that could never let anything go is drawn anew
            return Policy.model_validate(data)


def _policy_data(rng: random.Random) -> dict[str, Any]:
    recipients = {
        name: {
            "place": rng.choice(("organisation", "personal", "cloud")),
            "accepts": _some(rng, CLASSES, least=1),
            "purposes": _some(rng, PURPOSES, least=1),
        }
        for name in _some(rng, RECIPIENTS, least=1)
    }
    return {
        "name": "fuzz",
        "recipients": recipients,
        "permits": [
            {
                "name": f"p{index}",
                "when": _condition(rng),
                "to": _some(rng, tuple(recipients), least=1),
                "purpose": rng.choice(PURPOSES),
                "evidence": rng.choice(("none", "redacted", "crop")),
                "budget": {
                    "events_per_hour": rng.choice((0, 1, 5, 100)),
                    "evidence_bytes_per_hour": rng.choice((0, 1000, 100_000)),
                },
                "coalesce": rng.choice((0, 0, 10, 60)),
            }
            for index in range(rng.randrange(0, 4))
        ],
        "keep": [condition for _ in range(rng.randrange(0, 2)) if (condition := _condition(rng, keep=True))],
    }


def _condition(rng: random.Random, *, keep: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rng.random() < 0.6:
        found["classes"] = _some(rng, CLASSES, least=1)
    for field, patterns in PATTERNS.items():
        if rng.random() < (0.3 if keep else 0.35):
            found[field] = _some(rng, patterns, least=1)
    if rng.random() < 0.3:
        found["severity_at_least"] = rng.choice(SEVERITIES)
    return found


def _some(rng: random.Random, values: tuple[str, ...], least: int) -> list[str]:
    return sorted(rng.sample(values, rng.randrange(least, len(values) + 1)))


def random_request(rng: random.Random, policy: Policy, *, complete: bool) -> DecisionRequest:
    """A question; where it is not complete, anything may be missing or of a wrong kind."""
    fields: dict[str, Any] = {
        "data_class": DataClass(rng.choice(CLASSES)),
        "severity": Severity(rng.choice(SEVERITIES)),
        "camera": rng.choice(CAMERAS),
        "rule": rng.choice(RULES),
        "kind": rng.choice(KINDS),
        "label": rng.choice(LABELS[:3] if complete else LABELS),
        "evidence_bytes": rng.choice((None, 900, 50_000)),
        "usage": {permit.name: _usage(rng) for permit in policy.permits},
    }
    if not complete:
        for name in rng.sample(sorted(fields), rng.randrange(0, 3)):
            fields[name] = rng.choice(_WRONG)
        if rng.random() < 0.15:
            fields["data_class"] = rng.choice((DataClass.UNKNOWN, None, "secret", "internal"))
        usage = fields["usage"]
        if isinstance(usage, dict) and usage and rng.random() < 0.3:
            name = rng.choice(sorted(usage))
            usage[name] = rng.choice((*_WRONG, *_WRONG_USAGE))
    return DecisionRequest(**fields)


_WRONG: tuple[Any, ...] = (None, float("nan"), float("inf"), -1, True, "", b"dock-1", [], object())
_WRONG_USAGE: tuple[Any, ...] = (
    Usage(events=-1),
    Usage(events=float("nan")),  # type: ignore[arg-type]
    Usage(evidence_bytes=None),  # type: ignore[arg-type]
    Usage(since_sent_ns=-5),
    Usage(since_sent_ns=float("nan")),  # type: ignore[arg-type]
    Usage(known="sent"),  # type: ignore[arg-type]
)


def _usage(rng: random.Random) -> Usage:
    return Usage(
        events=rng.choice((0, 0, 1, 4, 99, 100)),
        evidence_bytes=rng.choice((0, 500, 99_000)),
        since_sent_ns=rng.choice((None, 0, 5_000_000_000, 30_000_000_000, 61_000_000_000)),
        known=rng.choice((Known.NEW, Known.NEW, Known.SENT, Known.COALESCED)),
    )
