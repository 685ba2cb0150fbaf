"""Room for a newcomer: who gives way to whom, in bytes."""

from edge_runtime.outbox.order import Place, length_of
from edge_runtime.outbox.records import NotAccepted
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.transaction import Transaction


def make_room(tx: Transaction, size: int, severity: int) -> NotAccepted | None:
    """Evict what a newcomer of so many bytes may push out; why it cannot be accepted, if it cannot."""
    need = tx.excess(size, severity)
    if need <= 0:
        return None
    victims = _victims(tx, need, severity)
    if victims is None:
        return why_full(tx)
    tx.evict(victims)
    return None


def why_full(tx: Transaction) -> NotAccepted:
    """Which limit a submission met: the quota, the disk, or the memory that stands in for the disk."""
    if tx.volatile:
        return NotAccepted.READ_ONLY
    return NotAccepted.FULL if tx.tight is None else NotAccepted.DISK_FULL


def _victims(tx: Transaction, need: int, severity: int) -> list[Place] | None:
    """Lowest severity first, then the nearest deadline, none above `severity`; None if they do not suffice.

    What is on its way does not give way; what rests does.
    """
    order, resting = tx.order(), tx.resting(severity)
    found: list[Place] = []
    taken: list[Place] = []
    for level in range(severity + 1):
        while need > 0:
            entry = order.first(level)
            rested = resting[-1] if resting and resting[-1][0] == level else None
            if entry is not None and (rested is None or entry < rested[1]):
                place = (level, order.take(level))
                taken.append(place)
            elif rested is not None:
                place = resting.pop()
            else:
                break
            found.append(place)
            need -= length_of(place[1]) + ROW_OVERHEAD
    if need <= 0:
        return found
    for place in taken:
        order.add(*place)
    return None
