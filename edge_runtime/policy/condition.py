"""Whether a condition means an event: yes, no, or in doubt because an input is missing."""

from collections.abc import Sequence
from enum import Enum

from edge_runtime.policy.model import Condition
from edge_runtime.policy.request import DecisionRequest
from edge_runtime.protocol.vocabulary import DataClass, Severity


class Match(Enum):
    """The answer of a condition. Doubt is not a no: who must be careful treats it as the worse of the two."""

    YES = "yes"
    NO = "no"
    DOUBT = "doubt"


def meets(condition: Condition, request: DecisionRequest) -> Match:
    """Whether `condition` means the event of `request`; any part that says no decides it."""
    answers = [
        _one_of(condition.classes, request.data_class),
        _like(condition.cameras, request.camera),
        _like(condition.rules, request.rule),
        _like(condition.kinds, request.kind),
        _like(condition.labels, request.label),
        _severe(condition.severity_at_least, request.severity),
    ]
    if Match.NO in answers:
        return Match.NO
    return Match.DOUBT if Match.DOUBT in answers else Match.YES


def like(pattern: str, text: str) -> bool:
    """Whether `text` is `pattern`, in which `*` stands for any run of characters, and nothing else is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    *middle, last = rest
    position = len(first)
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return text.endswith(last) and len(text) - len(last) >= position


def _one_of(wanted: Sequence[DataClass], found: DataClass | None) -> Match:
    if not wanted:
        return Match.YES
    if not isinstance(found, DataClass):
        return Match.DOUBT
    return Match.YES if found in wanted else Match.NO


def _like(patterns: Sequence[str], found: str | None) -> Match:
    if not patterns:
        return Match.YES
    if not isinstance(found, str) or not found:
        return Match.DOUBT
    return Match.YES if any(like(pattern, found) for pattern in patterns) else Match.NO


def _severe(least: Severity | None, found: Severity | None) -> Match:
    if least is None:
        return Match.YES
    if not isinstance(found, Severity):
        return Match.DOUBT
    return Match.YES if found.rank >= least.rank else Match.NO
