"""The table of events: each key once, whoever sends it how often.

A repeated key with the same body from the same device is the same event, and gets the same answer. With another
body, or from another device, it is a conflict: nobody can overwrite or claim an event of somebody else.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from edge_runtime.protocol.decision import EvidenceGrant
from edge_runtime.protocol.delivery import RejectionCode
from fleet_server.ingest.parcels import BundleParcel, Candidate, Refusal
from fleet_server.storage.event_tables import MINUTE_MS, EvidenceRow
from fleet_server.storage.writing import chunks, fetch, insert, insert_new, run_many, table

_EVIDENCE = table(EvidenceRow)
_COLUMNS = {
    "key": "bytea",
    "device": "text",
    "epoch": "text",
    "seq": "bigint",
    "received_ms": "bigint",
    "body": "bytea",
    # and those of `NewEvent`
    "event": "text",
    "revision": "integer",
    "state": "text",
    "kind": "text",
    "rule": "text",
    "camera": "text",
    "severity": "smallint",
    "data_class": "text",
    "at_ms": "bigint",
    "synced": "integer[]::boolean",
    "evidence_sha256": "text",
}
"""In the order of `_row`, with PostgreSQL's types."""

_NOTE_MINUTE = (
    "INSERT INTO event_minutes (minute, first_id, last_id) "
    "VALUES (?, (SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?), (SELECT max(id) FROM events)) "
    "ON CONFLICT (minute) DO UPDATE SET last_id = excluded.last_id"
)
_CONFLICT = Refusal(RejectionCode.KEY_CONFLICT, permanent=True, text="another event has this key")


class Offer(NamedTuple):
    """One event that a device offers.

    Attributes:
        refusal: why it is not taken, unless it was committed before.
    """

    device: str
    epoch: str
    channel: str
    candidate: Candidate
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one offer.

    Attributes:
        refusal: None when the event is in the table.
        inserted: whether it was not there before.
    """

    refusal: Refusal | None
    inserted: bool = False


@dataclass(frozen=True, slots=True)
class _Stored:
    device: str
    body: bytes
    is_new: bool


def store_whole(connection: Connection, bundles: Sequence[BundleParcel], received_ms: int) -> int:
    """Put the events of bundles into the table, all of which may be taken.

    The transaction must hold the turn of ingest: ids then grow in the order of commits, so that a reader who
    follows them misses nothing, and what was there before is told from what is new.

    Returns:
        How many were not there before. Where that is not all of them, `verdicts` says what became of each.
    """
    # Python's sqlite3 looks for an adapter, 0.5 us, for whatever is not exactly an int, float, str or bytearray:
    # for bytes and bools too
    rows = [
        (bytearray(key), bundle.device, bundle.epoch, seq, received_ms, bytearray(body), *event)
        for bundle in bundles
        for key, seq, body, event, _, _ in bundle.candidates
        if event is not None
    ]
    return _insert(connection, rows, received_ms)


def store_offers(connection: Connection, offers: Sequence[Offer], received_ms: int) -> list[Verdict]:
    """Put what may be taken into the table; the transaction must hold the turn of ingest.

    Returns:
        One verdict for each offer.
    """
    leaders = _leaders(offers)
    rows = [_row(offers[place], received_ms) for place in leaders.values()]
    before = _lookup(connection, [offer.candidate.key for offer in offers if offer.refusal is not None])
    return verdicts(connection, offers, _insert(connection, rows, received_ms), before)


def verdicts(
    connection: Connection,
    offers: Sequence[Offer],
    inserted: int,
    before: dict[bytes, "_Stored"] | None = None,
) -> list[Verdict]:
    """What became of each offer, after `inserted` of those that may be taken came into the table.

    Args:
        connection: of the transaction that inserted them, and nothing since.
        offers: in the order in which they were inserted.
        inserted: how many rows are new.
        before: what the table held under the keys of those that are refused.
    """
    leaders = _leaders(offers)
    stored = dict(before or {})
    if inserted == len(leaders):
        stored |= {
            key: _Stored(offers[place].device, offers[place].candidate.body, is_new=True)
            for key, place in leaders.items()
        }
    else:
        stored |= _lookup(connection, list(leaders), _newest(connection, inserted))
    return [_verdict(offer, place, stored, leaders) for place, offer in enumerate(offers)]


def expect_evidence(connection: Connection, taken: Iterable[tuple[str, EvidenceGrant]], now_ms: int) -> None:
    """Note the evidence that committed decisions of devices let go; only such evidence may be uploaded."""
    rows = [
        {
            "device": device,
            "sha256": grant.sha256,
            "bytes": grant.bytes,
            "mode": grant.mode.value,
            "state": "expected",
            "received": 0,
            "changed_ms": now_ms,
        }
        for device, grant in taken
    ]
    if rows:
        statement = insert(connection, _EVIDENCE).on_conflict_do_nothing(index_elements=["device", "sha256"])
        connection.execute(statement, rows)


def _leaders(offers: Sequence[Offer]) -> dict[bytes, int]:
    """Which offer of each key may be taken: the first."""
    leaders: dict[bytes, int] = {}
    for place, offer in enumerate(offers):
        if offer.refusal is None and offer.candidate.event is not None:
            leaders.setdefault(offer.candidate.key, place)
    return leaders


def _insert(connection: Connection, rows: Sequence[tuple[Any, ...]], received_ms: int) -> int:
    """Insert rows with a new key, and note the minute; how many that were."""
    if not rows:
        return 0
    inserted = insert_new(connection, "events", _COLUMNS, rows, "key")
    if inserted:
        run_many(connection, _NOTE_MINUTE, [(received_ms // MINUTE_MS, inserted - 1)])
    return inserted


def _newest(connection: Connection, count: int) -> set[bytes]:
    """The keys of the rows that came last: of those that this transaction inserted, as it has the turn."""
    rows = fetch(connection, "SELECT key FROM events ORDER BY id DESC LIMIT ?", count)
    return {bytes(key) for (key,) in rows}


def _lookup(
    connection: Connection, keys: list[bytes], new: Container[bytes] = frozenset()
) -> dict[bytes, _Stored]:
    """What the table holds under these keys."""
    found: dict[bytes, _Stored] = {}
    for part in chunks(keys):
        marks = ", ".join("?" * len(part))
        query = f"SELECT key, device, body FROM events WHERE key IN ({marks})"  # noqa: S608 - marks alone
        for key, device, body in fetch(connection, query, *part):
            found[bytes(key)] = _Stored(device, bytes(body), bytes(key) in new)
    return found


def _verdict(offer: Offer, place: int, stored: dict[bytes, _Stored], leaders: dict[bytes, int]) -> Verdict:
    candidate = offer.candidate
    found = stored.get(candidate.key)
    if found is None:
        return Verdict(offer.refusal)
    if (found.device, found.body) == (offer.device, candidate.body):
        return Verdict(None, inserted=found.is_new and leaders.get(candidate.key) == place)
    return Verdict(offer.refusal or _CONFLICT)


def _row(offer: Offer, received_ms: int) -> tuple[Any, ...]:
    """The values of `_COLUMNS`."""
    device, epoch, _, candidate, _ = offer
    assert candidate.event is not None
    key, body = bytearray(candidate.key), bytearray(candidate.body)
    return (key, device, epoch, candidate.seq, received_ms, body, *candidate.event)
