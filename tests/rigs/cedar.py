"""A policy in the words of another engine: Cedar permits, one for each of ours and each of its recipients.

Cedar answers for complete inputs only. With an attribute missing it skips the statement that needed it, which for a
forbid means to allow; ours holds. So no gaps are put to it.
"""

from typing import Any

from edge_runtime.policy import DecisionRequest, Known, Policy
from edge_runtime.policy.model import Condition, Permit


def cedar_policies(policy: Policy) -> str:
    """Every permit with every recipient that it names."""
    kept = [_condition(rule) for rule in policy.keep]
    unless = "".join(f"\nunless {{ {text} }}" for text in kept)
    texts = []
    for permit in policy.permits:
        for name in permit.to:
            who = policy.recipients[name]
            parts = [_condition(permit.when), _accepts(who.accepts), _usage(permit)]
            if permit.purpose not in who.purposes:
                parts.append("false")
            when = " && ".join(f"({part})" for part in parts)
            texts.append(f"permit (principal, action, resource)\nwhen {{ {when} }}{unless};")
    return "\n".join(texts)


def cedar_request(request: DecisionRequest) -> dict[str, Any]:
    """The question; every field must be there."""
    assert request.data_class is not None
    assert request.severity is not None
    context: dict[str, Any] = {
        "class": request.data_class.value,
        "severity": request.severity.rank,
        "camera": request.camera,
        "rule": request.rule,
        "kind": request.kind,
        "label": request.label,
        "usage": {
            name: {
                "events": usage.events,
                "since": -1 if usage.since_sent_ns is None else usage.since_sent_ns,
                "known": usage.known.value,
            }
            for name, usage in request.usage.items()
        },
    }
    return {
        "principal": 'Gate::"device"',
        "action": 'Action::"send"',
        "resource": 'Event::"event"',
        "context": context,
    }


def _condition(condition: Condition) -> str:
    parts = ["true"]
    if condition.classes:
        parts.append(_accepts(condition.classes))
    for field, patterns in (
        ("camera", condition.cameras),
        ("rule", condition.rules),
        ("kind", condition.kinds),
        ("label", condition.labels),
    ):
        if patterns:
            # `*` is a wildcard of Cedar's `like` as it is of ours
            parts.append(" || ".join(f'context.{field} like "{pattern}"' for pattern in patterns))
    if condition.severity_at_least is not None:
        parts.append(f"context.severity >= {condition.severity_at_least.rank}")
    return " && ".join(f"({part})" for part in parts)


def _accepts(classes: Any) -> str:
    listed = ", ".join(f'"{item.value}"' for item in classes)
    return f"[{listed}].contains(context.class)"


def _usage(permit: Permit) -> str:
    used = f"context.usage.{permit.name}"
    known = f'{used}.known == "{Known.SENT.value}"'
    first = (
        f'{used}.known == "{Known.NEW.value}" && '
        f"({used}.since < 0 || {used}.since >= {permit.coalesce * 1_000_000_000})"
    )
    return f"{used}.events < {permit.budget.events_per_hour} && ({known} || ({first}))"
