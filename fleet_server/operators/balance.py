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
) -> EpochBalance:
    """Compare both sides.

    Args:
        device: whose.
        epoch: of its outbox file.
        ledger: as the device last reported it; all zeros where it never did.
        settled: sequence numbers by fate, as the server counts them.
        high: every sequence number up to here is settled at the server.
        reported_ms: when the device reported, by the server's clock.
    """
    fates = ledger.delivered + ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
    delivered = settled.get(Fate.DELIVERED.value, 0)
    return EpochBalance(
        device=device,
        epoch=epoch,
        reported_ms=reported_ms,
        high=high,
        ledger=ledger,
        settled=dict(settled),
        not_in_books=abs(ledger.accepted - ledger.queued - fates),
        missing=max(0, ledger.delivered - delivered),
        waiting=max(0, ledger.accepted - sum(settled.values())),
    )
