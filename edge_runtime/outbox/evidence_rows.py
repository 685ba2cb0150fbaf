"""Accounts of the evidence spool: which crop is waited for, may be uploaded, or is needed by nobody."""

from edge_runtime.outbox.records import MAX_TTL_NS, EvidenceFile, Submission
from edge_runtime.outbox.transaction import Transaction

RETRY_BASE_MS = 10_000
RETRY_CAP_MS = 3_600_000
_CHUNK = 500


def add(tx: Transaction, item: Submission) -> bytes | None:
    """Count a submission's crop; its digest, or None where it has none or the spool has no room for it."""
    evidence = item.evidence
    if evidence is None:
        return None
    sha256 = bytes.fromhex(evidence.sha256)
    keep_ms = int(tx.settings.evidence_keep_s * 1000)
    deadline = tx.now_ms + max(keep_ms, min(max(0, item.ttl_ns), MAX_TTL_NS) // 1_000_000)
    if tx.database.execute("SELECT 1 FROM evidence WHERE sha256 = ?", (sha256,)):
        tx.database.execute(
            "UPDATE evidence SET deadline = max(deadline, ?), severity = max(severity, ?) WHERE sha256 = ?",
            (deadline, item.severity, sha256),
        )
        return sha256
    if not _make_room(tx, evidence.bytes, item.severity):
        tx.counters["evidence.evicted"] += 1
        return None
    tx.database.execute(
        "INSERT INTO evidence (sha256, bytes, severity, due, deadline, tries, not_before) "
        "VALUES (?, ?, ?, 0, ?, 0, 0)",
        (sha256, evidence.bytes, item.severity, deadline),
    )
    tx.books.evidence_bytes += evidence.bytes
    return sha256


def as_file(tx: Transaction, sha256: bytes | None) -> EvidenceFile | None:
    """What is known of a crop, or None where it was given up."""
    if sha256 is None:
        return None
    rows = tx.database.execute("SELECT bytes FROM evidence WHERE sha256 = ?", (sha256,))
    return EvidenceFile(sha256.hex(), rows[0][0]) if rows else None


def due(tx: Transaction, limit: int) -> list[tuple[str, int, int]]:
    """Crops whose events were receipted: digest, bytes and milliseconds left, oldest first."""
    rows = tx.database.execute(
        "SELECT sha256, bytes, deadline FROM evidence WHERE due = 1 AND not_before <= ? AND deadline > ? "
        "ORDER BY n LIMIT ?",
        (tx.now_ms, tx.now_ms, limit),
    )
    return [(sha256.hex(), size, deadline - tx.now_ms) for sha256, size, deadline in rows]


def postpone(tx: Transaction, sha256: bytes) -> None:
    """An upload failed and may be tried again: after 10 s, doubled with each try, at most an hour."""
    rows = tx.database.execute("SELECT tries FROM evidence WHERE sha256 = ?", (sha256,))
    if rows:
        pause = min(RETRY_CAP_MS, RETRY_BASE_MS << min(rows[0][0], 20))
        tx.database.execute(
            "UPDATE evidence SET tries = tries + 1, not_before = ? WHERE sha256 = ?",
            (tx.now_ms + pause, sha256),
        )


def finish(tx: Transaction, sha256: bytes, outcome: str) -> bool:
    """A crop's road ends; whether it was known. What still names it goes without it."""
    rows = tx.database.execute("SELECT bytes FROM evidence WHERE sha256 = ?", (sha256,))
    if not rows:
        return False
    tx.database.execute("DELETE FROM evidence WHERE sha256 = ?", (sha256,))
    tx.books.evidence_bytes -= rows[0][0]
    tx.counters[f"evidence.{outcome}"] += 1
    tx.gone_files.append(sha256)
    return True


def drop_orphans(tx: Transaction) -> None:
    """Give up crops that only ended events named; called before the commit."""
    tx.write_rows()
    for sha256, why in tx.orphans.items():
        needed = tx.database.execute(
            "SELECT 1 FROM queue WHERE evidence = ? UNION ALL SELECT 1 FROM held WHERE evidence = ? "
            "UNION ALL SELECT 1 FROM evidence WHERE sha256 = ? AND due = 1 LIMIT 1",
            (sha256, sha256, sha256),
        )
        if not needed:
            finish(tx, sha256, why if why in ("expired", "evicted") else "dropped")
    tx.orphans.clear()


def expire(tx: Transaction) -> int:
    """Give up crops past their deadline; how many."""
    rows = tx.database.execute(
        "SELECT sha256 FROM evidence WHERE deadline <= ? ORDER BY deadline LIMIT ?", (tx.now_ms, _CHUNK)
    )
    for row in rows:
        finish(tx, row[0], "expired")
    return len(rows)


def _make_room(tx: Transaction, size: int, severity: int) -> bool:
    """Evict crops, lowest severity first, then oldest, none above the newcomer's; whether it fits now."""
    quota = tx.settings.evidence_quota_bytes
    if size > quota:
        return False
    while tx.books.evidence_bytes + size > quota:
        rows = tx.database.execute(
            "SELECT sha256 FROM evidence WHERE severity <= ? ORDER BY severity, n LIMIT 1", (severity,)
        )
        if not rows:
            return False
        finish(tx, rows[0][0], "evicted")
    return True


def all_names(tx: Transaction) -> set[str]:
    """File names of all crops that are accounted for."""
    return {f"{row[0].hex()}.jpg" for row in tx.database.execute("SELECT sha256 FROM evidence")}
