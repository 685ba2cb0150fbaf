"""What devices say of themselves: presence, health, held items, and what became of commands."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from edge_runtime.protocol.delivery import Ledger, Presence, PresenceState
from edge_runtime.protocol.operation import HeldList
from fleet_server.ingest.parcels import HealthParcel, ResultParcel
from fleet_server.ingest.settlement import EpochKey, newest_epoch
from fleet_server.storage.device_tables import CommandRow, HealthRow, HeldListRow, HeldRow, PresenceRow
from fleet_server.storage.writing import insert, table

_PRESENCE, _HEALTH, _HELD = table(PresenceRow), table(HealthRow), table(HeldRow)
_LISTS, _COMMANDS = table(HeldListRow), table(CommandRow)
_OPEN = ("queued", "sent", "expired")
"""States of a command that a result may end: one that was given up may have been obeyed all the same."""


def keep_presence(connection: Connection, presence: Presence, now_ms: int, *, retained: bool = False) -> bool:
    """Keep a birth or a will; False when it is of an older session than what is known, and was only counted.

    Within one session a device is born once and dies once, so a birth that comes after its own will is stale too.
    Where a new key was accepted (session 0) what the broker kept is of who had the old one: a number that this
    one left there would make its successor's births stale. Only what is said now counts.
    """
    row = connection.execute(select(_PRESENCE).where(_PRESENCE.c.device == presence.device)).one_or_none()
    new = {
        "session": presence.session,
        "state": presence.state.value,
        "reason": presence.reason,
        "boot_id": presence.boot_id,
        "runtime": presence.runtime,
    }
    if row is None:
        columns: dict[str, Any] = {"device": presence.device, "since_ms": now_ms, "stale_ignored": 0}
        connection.execute(_PRESENCE.insert(), columns | new)
        return True
    where = _PRESENCE.c.device == presence.device
    same = row.session == presence.session
    if same and row.state == presence.state.value:
        return True  # retained messages come again with every subscription
    of_old_key = retained and row.session == 0
    if of_old_key or presence.session < row.session or (same and presence.state is PresenceState.ONLINE):
        connection.execute(update(_PRESENCE).where(where).values(stale_ignored=_PRESENCE.c.stale_ignored + 1))
        return False
    connection.execute(update(_PRESENCE).where(where).values(**new, since_ms=now_ms))
    return True


def keep_health(
    connection: Connection, parcels: Sequence[HealthParcel], now_ms: int
) -> dict[EpochKey, Ledger]:
    """Keep the newest health of each device; the ledgers in it, by the outbox file they belong to."""
    newest = {parcel.device: parcel for parcel in parcels}
    if newest:
        rows = [
            {"device": device, "received_ms": now_ms, "body": parcel.payload}
            for device, parcel in sorted(newest.items())
        ]
        statement = insert(connection, _HEALTH)
        statement = statement.on_conflict_do_update(
            index_elements=["device"],
            set_={"received_ms": statement.excluded.received_ms, "body": statement.excluded.body},
        )
        connection.execute(statement, rows)
    ledgers: dict[EpochKey, Ledger] = {}
    for device, parcel in newest.items():
        if (epoch := newest_epoch(connection, device)) is not None:
            ledgers[device, epoch] = parcel.ledger
    return ledgers


def keep_held(connection: Connection, held: HeldList, now_ms: int) -> None:
    """Replace the list of what a device holds for a person."""
    connection.execute(_HELD.delete().where(_HELD.c.device == held.device))
    rows = {
        item.key: {
            "device": held.device,
            "key": item.key,
            "received_ms": now_ms,
            "expires_ms": now_ms + item.left_ms,
            "body": item.encode(),
        }
        for item in held.items
    }
    if rows:
        connection.execute(_HELD.insert(), list(rows.values()))
    statement = insert(connection, _LISTS)
    statement = statement.on_conflict_do_update(
        index_elements=["device"],
        set_={"total": statement.excluded.total, "received_ms": statement.excluded.received_ms},
    )
    connection.execute(statement, {"device": held.device, "total": held.total, "received_ms": now_ms})


def keep_result(connection: Connection, parcel: ResultParcel) -> bool:
    """Close a command; False when no open command of that device has this id."""
    result = parcel.result
    statement = (
        update(_COMMANDS)
        .where(
            _COMMANDS.c.id == result.id,
            _COMMANDS.c.device == result.device,
            _COMMANDS.c.state.in_(_OPEN),
        )
        .values(state="done" if result.done else "failed", result=result.text)
    )
    if connection.execute(statement).rowcount:
        return True
    query = select(_COMMANDS.c.id).where(_COMMANDS.c.id == result.id, _COMMANDS.c.device == result.device)
    return connection.scalar(query) is not None  # answered before: a repeated result is no news
