"""The ring of decisions, and the ring of events that the server refused for good."""

from edge_runtime.outbox.records import DeadLetter
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.protocol.delivery import Rejection


def newest_decisions(tx: Transaction, limit: int, skip: int = 0) -> list[bytes]:
    """Receipts, newest first, without the newest `skip`."""
    return tx.known.ring.newest(tx.database, limit, skip)


def add_dead_letter(tx: Transaction, word: Rejection, body: bytes) -> None:
    """Keep an event that the server refused for good; the oldest leave the ring."""
    tx.database.execute(
        "INSERT INTO dead_letters (key, seq, code, text, body) VALUES (?, ?, ?, ?, ?)",
        (word.key, word.seq, word.code.value, word.text, body),
    )
    tx.database.execute(
        "DELETE FROM dead_letters WHERE n <= (SELECT max(n) FROM dead_letters) - ?",
        (tx.settings.dead_letters_kept,),
    )


def list_dead_letters(tx: Transaction, limit: int) -> list[DeadLetter]:
    """Refused events, newest first."""
    rows = tx.database.execute(
        "SELECT key, seq, code, text, body FROM dead_letters ORDER BY n DESC LIMIT ?", (limit,)
    )
    return [DeadLetter(*row) for row in rows]
