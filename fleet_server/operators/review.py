"""What devices hold for a person, and the commands that let it go: rows that the running server publishes."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.operation import Command, CommandKind, HeldItem
from edge_runtime.protocol.vocabulary import EvidenceMode
from edge_runtime.protocol.wire import WireError
from fleet_server.storage.device_tables import CommandRow, HeldRow

COMMAND_LIFE_MS = 60 * 60 * 1000
"""A command that reached no device within an hour is void: the operator asks again, knowing that."""

MAX_WAITING = 1000
"""Commands of one device that may wait to be sent."""

_READ_AT_ONCE = 500


class TooManyCommands(Exception):
    """So many commands wait for a device that no more are taken."""


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """One held item of one device; it never has content.

    Attributes:
        item: as the device listed it; None in a version that cannot be read.
        received_ms: when the list arrived.
        command: state of the newest command about it, or None.
    """

    device: str
    key: str
    received_ms: int
    expires_ms: int
    item: HeldItem | None
    command: str | None


@dataclass(frozen=True, slots=True)
class SentCommand:
    """A command and what became of it.

    Attributes:
        state: `queued`, `sent`, `done`, `failed` or `expired`.
    """

    id: str
    device: str
    kind: str
    state: str
    by: str
    issued_ms: int
    expires_ms: int
    sent_ms: int | None
    result: str | None


def held(
    session: Session, now_ms: int, *, device: str | None = None, key: str | None = None, limit: int = 1000
) -> list[HeldEntry]:
    """Held items that have not expired, those that end first coming first."""
    query = select(HeldRow).where(HeldRow.expires_ms > now_ms).order_by(HeldRow.expires_ms, HeldRow.key)
    if device is not None:
        query = query.where(HeldRow.device == device)
    if key is not None:
        query = query.where(HeldRow.key == key)
    rows = list(session.scalars(query.limit(limit)))
    states = _command_states(session, {(row.device, row.key) for row in rows})
    return [
        HeldEntry(
            row.device,
            row.key,
            row.received_ms,
            row.expires_ms,
            _item(row),
            states.get((row.device, row.key)),
        )
        for row in rows
    ]


def send(
    session: Session,
    clock: Clock,
    device: str,
    kind: CommandKind,
    by: str,
    *,
    item: str | None = None,
    note: str | None = None,
    evidence: EvidenceMode | None = None,
) -> SentCommand:
    """Put a command in the queue of a device.

    Args:
        session: of a writing transaction.
        clock: its wall clock stamps the command.
        device: who is asked.
        kind: what is asked.
        by: name of the operator.
        item: key of the held item.
        note: the operator's reason.
        evidence: how much of the crop goes with a release; the device's policy bounds it.

    Raises:
        TooManyCommands: `MAX_WAITING` wait already.
    """
    waiting = select(CommandRow.id).where(CommandRow.state == "queued", CommandRow.device == device)
    if len(session.scalars(waiting.limit(MAX_WAITING)).all()) >= MAX_WAITING:
        raise TooManyCommands
    now_ns = clock.wall().unix_ns
    now = now_ns // NS_PER_MS
    command = Command(
        id=uuid7(now_ns),
        device=device,
        kind=kind,
        issued_ms=now,
        expires_ms=now + COMMAND_LIFE_MS,
        by=by,
        item=item,
        note=note,
        evidence=evidence,
    )
    row = CommandRow(
        id=command.id,
        device=device,
        kind=kind.value,
        state="queued",
        by=by,
        issued_ms=command.issued_ms,
        expires_ms=command.expires_ms,
        sent_ms=None,
        body=command.encode(),
        result=None,
    )
    session.add(row)
    session.flush()
    return _sent(row)


def command(session: Session, command_id: str) -> SentCommand | None:
    """A command by its id."""
    row = session.get(CommandRow, command_id)
    return None if row is None else _sent(row)


def _command_states(session: Session, items: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """State of the newest command about each of these items, by device and key; none for those nobody asked about.

    A command's item is in its body, so commands are read from the newest on until every item is met, or to the end:
    retention bounds them.
    """
    rows = session.execute(
        select(CommandRow.device, CommandRow.state, CommandRow.body)
        .where(
            CommandRow.device.in_({device for device, _ in items}),
            CommandRow.kind.in_((CommandKind.RELEASE_HELD.value, CommandKind.DROP_HELD.value)),
        )
        .order_by(CommandRow.issued_ms.desc(), CommandRow.id.desc())
        .execution_options(yield_per=_READ_AT_ONCE)
    )
    states: dict[tuple[str, str], str] = {}
    for device, state, body in rows:
        item = _item_of(body)
        if item is not None and (device, item) in items:
            states.setdefault((device, item), state)
            if len(states) == len(items):
                rows.close()
                break
    return states


def _item_of(body: bytes) -> str | None:
    try:
        return Command.decode(body).item
    except WireError:
        return None


def _item(row: HeldRow) -> HeldItem | None:
    try:
        return HeldItem.decode(row.body)
    except WireError:
        return None


def _sent(row: CommandRow) -> SentCommand:
    return SentCommand(
        row.id,
        row.device,
        row.kind,
        row.state,
        row.by,
        row.issued_ms,
        row.expires_ms,
        row.sent_ms,
        row.result,
    )
