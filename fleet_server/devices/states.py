"""States of devices and certificates, and the few writes that every act shares."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleet_server.storage.device_tables import CertificateRow, DeviceRow
from fleet_server.storage.operator_tables import GenerationRow
from fleet_server.storage.writing import insert, table

GENERATION = "devices"
"""The counter that grows when a broker must be told anew."""

RecordAct = Callable[[Session, str, str, str, Mapping[str, Any]], object]
"""Writes an act into the audit in the same transaction: session, actor, action, subject, detail."""


class DeviceState(str, Enum):
    """What a device may do: only an `active` one may connect."""

    ACTIVE = "active"
    PENDING = "pending"
    REVOKED = "revoked"
    REMOVED = "removed"


class CertificateState(str, Enum):
    """What a certificate is worth: only an `active` one of an active device is accepted."""

    ACTIVE = "active"
    PENDING = "pending"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"


def bump(session: Session) -> None:
    """Have the running server look at devices and certificates again."""
    into = table(GenerationRow)
    statement = insert(session.connection(), into).values(name=GENERATION, value=1)
    session.execute(
        statement.on_conflict_do_update(index_elements=["name"], set_={"value": into.c.value + 1})
    )


def certificates_of(session: Session, device: str, *states: CertificateState) -> list[CertificateRow]:
    """A device's certificates in these states, oldest first, locked until the transaction ends."""
    query = select(CertificateRow).where(
        CertificateRow.device == device, CertificateRow.state.in_([state.value for state in states])
    )
    return list(session.scalars(query.order_by(CertificateRow.id).with_for_update()))


def locked_device(session: Session, device: str) -> DeviceRow | None:
    """A device's row, locked until the transaction ends."""
    return session.get(DeviceRow, device, with_for_update=True)


def put_out(rows: list[CertificateRow], state: CertificateState, now_ms: int) -> None:
    """Give certificates a state in which nobody accepts them."""
    for row in rows:
        row.state, row.changed_ms = state.value, now_ms
