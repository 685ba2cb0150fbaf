"""What every event passes through on the outbox's socket, as rows without names: submissions and leased items.

Both sides are of one release: the outbox, the gate and the uplink are started from the same installation.
"""

from collections.abc import Sequence
from typing import Any

from edge_runtime.outbox.records import (
    ACCEPTED,
    EvidenceFile,
    NotAccepted,
    Put,
    PutResult,
    QueuedItem,
    Submission,
)
from edge_runtime.protocol.vocabulary import DecisionKind

_KINDS = {kind.value: kind for kind in DecisionKind}
_WRONG = (ValueError, TypeError, KeyError)
_INT64 = 1 << 63


class CallError(ValueError):
    """A call that cannot be made: no such method, or arguments that are not its own."""


def pack_submissions(submissions: Sequence[Submission]) -> list[tuple[Any, ...]]:
    """Rows of a put."""
    return [
        (key, kind._value_, severity, ttl_ns, body, receipt, crop and (crop.sha256, crop.bytes))
        for key, kind, severity, ttl_ns, body, receipt, crop in submissions
    ]


def unpack_submissions(rows: Any) -> list[Submission]:
    """Submissions of a put's rows.

    Raises:
        CallError: they are none; the text holds no content.
    """
    try:
        return [_submission(row) for row in _list(rows)]
    except _WRONG:
        raise CallError("wrong arguments: submissions") from None


def _submission(row: Any) -> Submission:
    key, kind, severity, ttl_ns, body, receipt, evidence = row
    if not type(key) is type(body) is type(receipt) is bytes or not type(severity) is type(ttl_ns) is int:
        raise TypeError
    return Submission(
        key, _KINDS[kind], severity, ttl_ns, body, receipt, None if evidence is None else _evidence(*evidence)
    )


def _evidence(sha256: Any, size: Any) -> EvidenceFile:
    if type(sha256) is not str or type(size) is not int or size >= _INT64:
        raise TypeError
    return EvidenceFile(sha256, size)


def pack_results(results: list[PutResult]) -> list[Any]:
    """Answers to a put; the usual one is a bare True."""
    usual = ACCEPTED[False]
    return [
        True if found is usual else (found.outcome, found.reason, found.volatile)  # msgpack writes the names
        for found in results
    ]


def unpack_results(rows: Any) -> list[PutResult]:
    """Answers of their rows.

    Raises:
        CallError: they are none.
    """
    try:
        return [ACCEPTED[False] if row is True else _result(*row) for row in _list(rows)]
    except _WRONG:
        raise CallError("not the answers to a put") from None


def _result(outcome: Any, reason: Any, volatile: Any) -> PutResult:
    return PutResult(Put(outcome), None if reason is None else NotAccepted(reason), bool(volatile))


def pack_items(items: list[QueuedItem]) -> list[Any]:
    """The epoch of a lease, which is that of all its items, and their rows; nothing for no items."""
    if not items:
        return []
    return [items[0].epoch, [item[:-1] for item in items]]


def unpack_items(answer: Any) -> list[QueuedItem]:
    """Leased items of their epoch and rows.

    Raises:
        CallError: they are none.
    """
    try:
        if not _list(answer):
            return []
        epoch, rows = answer
        if type(epoch) is not str:
            raise TypeError
        return [_item(row, epoch) for row in _list(rows)]
    except _WRONG:
        raise CallError("not leased items") from None


def _item(row: Any, epoch: str) -> QueuedItem:
    key, seq, severity, left_ms, deadline_ms, tries, body = row
    numbers = type(seq) is type(severity) is type(left_ms) is type(tries) is int
    if not numbers or not type(key) is type(body) is bytes or type(deadline_ms) not in (int, type(None)):
        raise TypeError
    return QueuedItem(key, seq, severity, left_ms, deadline_ms, tries, body, epoch)


def _list(rows: Any) -> list[Any]:
    if type(rows) is not list:
        raise TypeError
    return rows
