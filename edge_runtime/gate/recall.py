"""Budgets across a restart: read back from the decisions that the outbox keeps, so that a crash gives none back."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.policy import BudgetBook
from edge_runtime.protocol import DecisionKind, Reason, WireError
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
    ages = _Ages(clock)
    while len(found) < MOST:
        page = decisions(_PAGE, len(found))
        found += page
        oldest = [ages.of(receipt) for raw in page if (receipt := _decode(raw)) is not None][-1:]
        if len(page) < _PAGE or any(age > _HOUR_NS for age in oldest):
            break
    return found


def recall(book: BudgetBook, receipts: Sequence[bytes], clock: Clock) -> None:
    """Write the last hour's decisions into a new book.

    Args:
        book: nothing was asked of it yet.
        receipts: encoded, newest first.
        clock: dates them; see `_Ages` for those of earlier boots.
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


def _lately(receipts: Sequence[bytes], clock: Clock) -> Iterator[tuple[DecisionReceipt, int]]:
    ages = _Ages(clock)
    for raw in receipts:
        receipt = _decode(raw)
        if receipt is not None and (age := ages.of(receipt)) <= _HOUR_NS:
            yield receipt, age


class _Ages:
    """Ages of decisions, asked of the newest first and then of each older one.

    One of this boot is dated by the monotonic clock, one of an earlier boot by the wall clock where that was right
    both times. Any other is taken to be as young as it can be: its boot lasted at least as long as the monotonic
    clock had run at its last decision, and all boots since have lasted too. Right after a reboot that may be just
    now: a device whose clock nobody sets must not spend an hour's budget anew with each reboot.
    """

    def __init__(self, clock: Clock) -> None:
        self._now_ns, self._wall = clock.monotonic_ns(), clock.wall()
        self._boot = self._wall.boot_id
        self._top_ns = self._now_ns
        self._since_ns = 0

    def of(self, receipt: DecisionReceipt) -> int:
        """Nanoseconds, at least 0."""
        at = receipt.at
        if at.boot_id != self._boot:
            self._since_ns += self._top_ns
            self._boot, self._top_ns = at.boot_id, at.monotonic_ns
        least = self._since_ns + max(0, self._top_ns - at.monotonic_ns)
        if at.boot_id == self._wall.boot_id or not (at.synced and self._wall.synced):
            return least
        try:
            then = datetime.fromisoformat(at.wall.replace("Z", "+00:00"))
        except ValueError:
            return least
        return max(least, self._wall.unix_ns - int(then.timestamp() * NS_PER_S))


def _decode(raw: bytes) -> DecisionReceipt | None:
    try:
        return DecisionReceipt.decode(raw)
    except WireError:
        return None
