"""The ledger on both sides: what a device says became of its events, and what the server knows of the same.

Pure: it compares plain counts. A device reports its ledger with every sync, outcome and health, so the two sides
are of different moments; what that explains is not called unexplained.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.vocabulary import Fate


@dataclass(frozen=True, slots=True)
class EpochBalance:
    """One outbox file of one device, seen from both sides.

    Attributes:
        ledger: as the device last reported it.
        reported_ms: when it did, by the server's clock; None never.
        high: every sequence number up to here is settled at the server.
        settled: sequence numbers by fate, as the server counts them.
        not_in_books: accepted events whose numbers do not add up on the device itself.
        missing: events that the device counts as delivered and the server does not.
        waiting: accepted by the device and not settled at the server: on their way, or fates not yet reported.
    """

    device: str
    epoch: str
    reported_ms: int | None
    high: int
    ledger: Ledger
    settled: Mapping[str, int]
    not_in_books: int
    missing: int
    waiting: int

    @property
    def unexplained(self) -> int:
        """Events that neither side can account for. Anything but 0 is a defect or a loss, and is said loudly."""
        return self.not_in_books + self.missing


def compare(
    device: str,
    epoch: str,
    ledger: Ledger,
    settled: Mapping[str, int],
    *,
    high: int = 0,
    reported_ms: int | None = None,
    before: Mapping[str, int] | None = None,
    is_closed: bool = False,
) -> EpochBalance:
    """Compare both sides.

    Args:
        device: whose.
        epoch: of its outbox file.
        ledger: as the device last reported it; all zeros where it never did.
        settled: sequence numbers by fate, as the server counts them.
        high: every sequence number up to here is settled at the server.
        reported_ms: when the device reported, by the server's clock.
        before: sequence numbers of older outbox files whose counts the ledger includes, by fate: after a damage a
            device goes on with a new file, numbers what it could save anew, and counts on.
        is_closed: a newer file goes on from this one; nothing of it is on its way any more.
    """
    before = before or {}
    fates = ledger.delivered + ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
    delivered = settled.get(Fate.DELIVERED.value, 0) + before.get(Fate.DELIVERED.value, 0)
    known = sum(settled.values()) + sum(before.values())
    # what was lost with a file has no number in the next one: only the ledger tells of it
    known += max(0, ledger.lost - settled.get(Fate.LOST.value, 0) - before.get(Fate.LOST.value, 0))
    return EpochBalance(
        device=device,
        epoch=epoch,
        reported_ms=reported_ms,
        high=high,
        ledger=ledger,
        settled=dict(settled),
        not_in_books=abs(ledger.accepted - ledger.queued - fates),
        missing=max(0, ledger.delivered - delivered),
        waiting=0 if is_closed else max(0, ledger.accepted - known),
    )


def goes_on_from(newer: Ledger, older: Ledger) -> bool:
    """Whether the ledger of a newer outbox file includes an older one's: none of its counts fell."""
    return newer.accepted >= max(1, older.accepted) and all(
        getattr(newer, fate.value) >= getattr(older, fate.value) for fate in Fate
    )
