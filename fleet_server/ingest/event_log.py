"""The table of events: each key once, whoever sends it how often.

A repeated key with the same body from the same device is the same event, and gets the same answer. With another
body, or from another device, it is a conflict: nobody can overwrite or claim an event of somebody else.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from edge_runtime.protocol.delivery import RejectionCode
from fleet_server.ingest.parcels import Candidate, NewEvent, Refusal
from fleet_server.storage.event_tables import EventRow, EvidenceRow
from fleet_server.storage.writing import chunks, insert, table

_EVENTS = table(EventRow)
_EVIDENCE = table(EvidenceRow)
_COLUMNS = (
    *("key", "device", "epoch", "seq", "event", "revision", "state", "kind", "rule", "camera", "severity"),
    *("data_class", "at_ms", "synced", "received_ms", "evidence_sha256", "body_sha256", "body"),
)
_CONFLICT = Refusal(RejectionCode.KEY_CONFLICT, permanent=True, text="another event has this key")


@dataclass(frozen=True, slots=True)
class Offer:
    """One event that a device offers.

    Attributes:
        refusal: why it is not taken, unless it was committed before.
    """

    device: str
    epoch: str
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


_INSERTED = Verdict(None, inserted=True)


@dataclass(frozen=True, slots=True)
class _Stored:
    device: str
    digest: bytes
    is_new: bool


def store_events(connection: Connection, offers: Sequence[Offer], received_ms: int) -> list[Verdict]:
    """Put what may be taken into the table; one verdict for each offer.

    The transaction must hold the turn of ingest: ids then grow in the order of commits, so that a reader who
    follows them misses nothing, and what was there before is told from what is new.
    """
    stored = _lookup(connection, [offer.candidate.key for offer in offers if offer.refusal is not None])
    leaders: dict[bytes, int] = {}
    rows: list[tuple[Any, ...]] = []
    for place, offer in enumerate(offers):
        event, candidate = offer.candidate.event, offer.candidate
        if offer.refusal is None and event is not None and candidate.key not in leaders:
            leaders[candidate.key] = place
            rows.append(_row(offer, event, received_ms))
    if rows:
        newest = connection.scalar(select(func.max(_EVENTS.c.id))) or 0
        if connection.exec_driver_sql(_insert_sql(connection.dialect.name), rows).rowcount != len(rows):
            stored |= _lookup(connection, list(leaders), newest)
        elif len(rows) == len(offers):
            return [_INSERTED] * len(offers)
        else:
            stored |= {
                key: _Stored(offers[place].device, offers[place].candidate.digest, is_new=True)
                for key, place in leaders.items()
            }
    return [_verdict(offer, place, stored, leaders) for place, offer in enumerate(offers)]


def expect_evidence(
    connection: Connection, offers: Sequence[Offer], verdicts: Sequence[Verdict], now_ms: int
) -> None:
    """Note the evidence that committed decisions let go; only such evidence may be uploaded."""
    rows = []
    for offer, verdict in zip(offers, verdicts, strict=True):
        event = offer.candidate.event
        if verdict.refusal is None and event is not None and (grant := event.grant) is not None:
            rows.append(
                {
                    "device": offer.device,
                    "sha256": grant.sha256,
                    "bytes": grant.bytes,
                    "mode": grant.mode.value,
                    "state": "expected",
                    "received": 0,
                    "changed_ms": now_ms,
                }
            )
    if rows:
        statement = insert(connection, _EVIDENCE).on_conflict_do_nothing(index_elements=["device", "sha256"])
        connection.execute(statement, rows)


def _lookup(connection: Connection, keys: list[bytes], newest: int | None = None) -> dict[bytes, _Stored]:
    """What the table holds under these keys; rows after `newest` are new, none of them where it is None."""
    found: dict[bytes, _Stored] = {}
    columns = (_EVENTS.c.key, _EVENTS.c.device, _EVENTS.c.body_sha256, _EVENTS.c.id)
    for part in chunks(keys):
        for key, device, digest, row_id in connection.execute(
            select(*columns).where(_EVENTS.c.key.in_(part))
        ):
            is_new = newest is not None and row_id > newest
            found[bytes(key)] = _Stored(device, bytes(digest), is_new)
    return found


def _verdict(offer: Offer, place: int, stored: dict[bytes, _Stored], leaders: dict[bytes, int]) -> Verdict:
    candidate = offer.candidate
    found = stored.get(candidate.key)
    if found is None:
        return Verdict(offer.refusal)
    if (found.device, found.digest) == (offer.device, candidate.digest):
        return Verdict(None, inserted=found.is_new and leaders.get(candidate.key) == place)
    return Verdict(offer.refusal or _CONFLICT)


@functools.cache
def _insert_sql(dialect: str) -> str:
    """The statement for whole tuples: SQLAlchemy's own work on named values is a third of an insert's time."""
    mark = "?" if dialect == "sqlite" else "%s"
    places = ", ".join([mark] * len(_COLUMNS))
    return f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES ({places}) ON CONFLICT (key) DO NOTHING"  # noqa: S608


def _row(offer: Offer, event: NewEvent, received_ms: int) -> tuple[Any, ...]:
    """The values of `_COLUMNS`."""
    candidate = offer.candidate
    return (
        candidate.key,
        offer.device,
        offer.epoch,
        candidate.seq,
        event.event,
        event.revision,
        event.state,
        event.kind,
        event.rule,
        event.camera,
        event.severity,
        event.data_class,
        event.at_ms,
        event.synced,
        received_ms,
        event.grant.sha256 if event.grant is not None else None,
        candidate.digest,
        candidate.body,
    )
