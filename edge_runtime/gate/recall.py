"""Budgets across a restart: read back from the decisions that the outbox keeps, so that a crash gives none back."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.policy import BudgetBook
from edge_runtime.protocol import DecisionKind, EventTime, Reason, WireError
from edge_runtime.protocol.decision import DecisionReceipt

MOST = 20_000
"""Decisions that are read back; with more within an hour the oldest of them are not counted."""

_PAGE = 1000
_HOUR_NS = 3600 * NS_PER_S


def last_hour(decisions: Callable[[int, int], Sequence[bytes]], clock: Clock) -> list[bytes]:
    """Decisions that may be of the last hour, newest first, as far as the outbox keeps them.

    Kept and held events have their receipts in the same ring as those that were sent: a thousand of them in an hour
    must not hide what a permit let go before.

    Args:
        decisions: of the outbox: so many of the newest, after so many.
        clock: dates them.

    Raises:
        OutboxError: the outbox is away.
    """
    found: list[bytes] = []
    while len(found) < MOST:
        page = decisions(_PAGE, len(found))
        found += page
        if len(page) < _PAGE or _is_older(page[-1], clock):
            break
    return found


def recall(book: BudgetBook, receipts: Sequence[bytes], clock: Clock) -> None:
    """Write the last hour's decisions into a new book.

    Args:
        book: nothing was asked of it yet.
        receipts: encoded, newest first.
        clock: dates them. One of an earlier boot is dated by the wall clock where that was right both times, else
            it is not counted: it may be of last year.
    """
    now = clock.boottime_ns()
    for receipt, age_ns in reversed(list(_lately(receipts, clock))):
        where, at = (receipt.camera, receipt.rule), now - age_ns
        if receipt.permit is None:
            continue
        if receipt.decision is DecisionKind.SEND:
            size = 0 if receipt.evidence is None else receipt.evidence.bytes
            book.sent(receipt.permit, where, receipt.event, size, at)
        elif Reason.COALESCED in receipt.reasons:
            book.coalesced(receipt.permit, where, receipt.event, at)


def _is_older(raw: bytes, clock: Clock) -> bool:
    receipt = _decode(raw)
    age = None if receipt is None else _age_ns(receipt.at, clock)
    return age is not None and age > _HOUR_NS


def _lately(receipts: Sequence[bytes], clock: Clock) -> Iterator[tuple[DecisionReceipt, int]]:
    for raw in receipts:
        receipt = _decode(raw)
        age = None if receipt is None else _age_ns(receipt.at, clock)
        if receipt is not None and age is not None and 0 <= age <= _HOUR_NS:
            yield receipt, age


def _age_ns(at: EventTime, clock: Clock) -> int | None:
    wall = clock.wall()
    if at.boot_id == wall.boot_id:
        return clock.monotonic_ns() - at.monotonic_ns
    if not (at.synced and wall.synced):
        return None
    try:
        then = datetime.fromisoformat(at.wall.replace("Z", "+00:00"))
    except ValueError:
        return None
    return wall.unix_ns - int(then.timestamp() * NS_PER_S)


def _decode(raw: bytes) -> DecisionReceipt | None:
    try:
        return DecisionReceipt.decode(raw)
    except WireError:
        return None
