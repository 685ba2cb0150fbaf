"""The ring of decisions, and the ring of events that the server refused for good."""

from edge_runtime.outbox.records import DeadLetter
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.protocol.delivery import Rejection


def known_decision(tx: Transaction, key: bytes) -> bool:
    """Whether this decision is in the ring: its event was submitted before, whatever became of it."""
    return bool(tx.database.execute("SELECT 1 FROM decisions WHERE key = ?", (key,)))


def add_decision(tx: Transaction, key: bytes, receipt: bytes) -> None:
    """Keep a decision's receipt; the oldest leave the ring. Without a receipt the key alone is kept."""
    tx.database.execute("INSERT OR IGNORE INTO decisions (key, receipt) VALUES (?, ?)", (key, receipt))
    tx.decisions_added += tx.database.changed()


def trim_decisions(tx: Transaction) -> None:
    """Delete what left the ring; once for all that a transaction added."""
    if not tx.decisions_added:
        return
    if tx.tight is not None:  # the ring must not grow on a full disk
        tx.database.execute(
            "DELETE FROM decisions WHERE n IN (SELECT n FROM decisions ORDER BY n LIMIT ?)",
            (tx.decisions_added,),
        )
    tx.database.execute(
        "DELETE FROM decisions WHERE n <= (SELECT max(n) FROM decisions) - ?", (tx.settings.decisions_kept,)
    )


def newest_decisions(tx: Transaction, limit: int, skip: int = 0) -> list[bytes]:
    """Receipts, newest first, without the newest `skip`."""
    rows = tx.database.execute(
        "SELECT receipt FROM decisions WHERE length(receipt) > 0 ORDER BY n DESC LIMIT ? OFFSET ?",
        (limit, skip),
    )
    return [row[0] for row in rows]


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
