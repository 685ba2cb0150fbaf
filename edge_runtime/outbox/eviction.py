"""Room for a newcomer: who gives way to whom, in bytes."""

from edge_runtime.outbox.candidates import Candidate, Candidates
from edge_runtime.outbox.records import NotAccepted
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.protocol.vocabulary import Fate


def make_room(tx: Transaction, size: int, severity: int) -> NotAccepted | None:
    """Evict what a newcomer of so many bytes may push out; why it cannot be accepted, if it cannot."""
    need = tx.excess(size, severity)
    if need <= 0:
        return None
    victims = _victims(tx, need, severity)
    if victims is None:
        return why_full(tx)
    tx.delete([victim[2] for victim in victims])
    tx.end([(seq, level, length, crop) for level, _, seq, length, crop in victims], Fate.EVICTED)
    return None


def why_full(tx: Transaction) -> NotAccepted:
    """Which limit a submission met: the quota, the disk, or the memory that stands in for the disk."""
    if tx.volatile:
        return NotAccepted.READ_ONLY
    return NotAccepted.FULL if tx.tight is None else NotAccepted.DISK_FULL


def _victims(tx: Transaction, need: int, severity: int) -> list[Candidate] | None:
    """Lowest severity first, then the nearest deadline, none above `severity`; None if they do not suffice.

    What is on its way does not give way; who has what does not change while puts follow each other.
    """
    if tx.candidates is None:
        tx.candidates = Candidates()
    candidates, owners = tx.candidates, tx.leases.owners
    found: list[Candidate] = []
    while need > 0:
        if candidates.must_read:
            tx.write_rows()
            candidates.read(tx.database)
        candidate = candidates.take()
        if candidate is None:
            break
        if candidate[0] > severity:
            candidates.add(candidate)
            break
        if candidate[2] not in owners:
            found.append(candidate)
            need -= candidate[3] + ROW_OVERHEAD
    if need <= 0:
        return found
    for candidate in found:
        candidates.add(candidate)
    return None
