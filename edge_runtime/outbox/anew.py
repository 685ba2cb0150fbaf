"""When the server's word cannot be about this file: a new epoch, in which nothing was ever claimed.

A file can be older than what the server knows of it: an image that was put back, a card that lost what it said was
written. Its next events get numbers that the server has settled long ago, and the next receipt would delete them as
delivered, unsent. The same happens where somebody else has settled numbers under this device's name.
"""

from edge_runtime.outbox.database import Database
from edge_runtime.outbox.leases import Leases
from edge_runtime.outbox.order import Order
from edge_runtime.outbox.ranges import forget_run
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.protocol.delivery import Receipt

SENTENCE = (
    "the server claims events that were never handed out: this state is older than what the server knows of it, "
    "so what is queued goes out again under a new epoch"
)


def is_impossible(tx: Transaction, receipt: Receipt, fresh_from: int) -> bool:
    """Whether a receipt settles numbers that nobody can have sent.

    Args:
        tx: of the present epoch.
        receipt: of the present epoch.
        fresh_from: rows from this number on were queued since the file was opened; who leased one is known.
    """
    for first, last in ((1, receipt.high), *receipt.accepted):
        if last >= tx.books.next:
            return True
        if _unsent(tx.database, tx.leases, max(first, fresh_from), last):
            return True
    return False


def begin_anew(tx: Transaction, epoch: str) -> None:
    """Give the queue a new epoch and numbers from 1 on; the events, their keys and the ledger stay as they are.

    Whatever the server has of them it knows by their keys. Gaps of the old epoch need no outcome: nobody waits for
    them once a device has a newer one.
    """
    rows = tx.database.execute("SELECT seq FROM queue ORDER BY seq")
    # each number moves down or stays, in ascending order: none meets another
    moves = [(place, row[0]) for place, row in enumerate(rows, 1) if row[0] != place]
    tx.database.execute_many("UPDATE queue SET seq = ? WHERE seq = ?", moves)
    tx.database.execute("DELETE FROM outcomes")
    forget_run(tx.books)
    tx.books.epoch, tx.books.next, tx.books.passed = epoch, len(rows) + 1, 0
    tx.order().load(tx.database)
    tx.anew = True
    tx.on_commit.append(lambda: _read_again(tx))


def _read_again(tx: Transaction) -> None:
    order = Order()
    order.load(tx.database)
    tx.leases.clear(order)


def _unsent(database: Database, leases: Leases, first: int, last: int) -> bool:
    if first > last:
        return False
    rows = database.execute("SELECT seq FROM queue WHERE seq BETWEEN ? AND ?", (first, last))
    return any(row[0] not in leases.handed for row in rows)
