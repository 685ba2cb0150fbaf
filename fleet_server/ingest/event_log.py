"""The table of events: each key once, whoever sends it how often.

A repeated key with the same body from the same device is the same event, and gets the same answer. With another
body, or from another device, it is a conflict: nobody can overwrite or claim an event of somebody else.
"""

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
    rows: list[dict[str, Any]] = []
    for place, offer in enumerate(offers):
        event, candidate = offer.candidate.event, offer.candidate
        if offer.refusal is None and event is not None and candidate.key not in leaders:
            leaders[candidate.key] = place
            rows.append(_row(offer, event, received_ms))
    if rows:
        newest = connection.scalar(select(func.max(_EVENTS.c.id))) or 0
        statement = insert(connection, _EVENTS).on_conflict_do_nothing(index_elements=["key"])
        if connection.execute(statement, rows).rowcount == len(rows):
            fresh = {
                key: _Stored(offers[place].device, offers[place].candidate.digest, is_new=True)
                for key, place in leaders.items()
            }
        else:
            fresh = _lookup(connection, list(leaders), newest)
        stored = fresh | {key: found for key, found in stored.items() if key not in fresh}
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


def _row(offer: Offer, event: NewEvent, received_ms: int) -> dict[str, Any]:
    candidate = offer.candidate
    return {
        "key": candidate.key,
        "device": offer.device,
        "epoch": offer.epoch,
        "seq": candidate.seq,
        "event": event.event,
        "revision": event.revision,
        "state": event.state,
        "kind": event.kind,
        "rule": event.rule,
        "camera": event.camera,
        "severity": event.severity,
        "data_class": event.data_class,
        "at_ms": event.at_ms,
        "synced": event.synced,
        "received_ms": received_ms,
        "evidence_sha256": event.grant.sha256 if event.grant is not None else None,
        "body_sha256": candidate.digest,
        "body": candidate.body,
    }
