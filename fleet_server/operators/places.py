"""Whether one device connects from two places: somebody has a copy of its identity.

The broker puts one of the two out whenever the other connects, so each looks like a device with a bad link.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.protocol.operation import TWO_PLACES, Health
from edge_runtime.protocol.wire import WireError
from fleet_server.storage.device_tables import DeviceRow, HealthRow, PresenceRow

LOOKED_BACK_MS = 3_600_000
"""Health that is older than this says nothing about now."""

REORDERED_MS = 10_000
"""Messages of one device may be committed in another order within this time: several processes take them in."""

_MOST = 100


def in_two_places(presence: PresenceRow | None, health: Health | None, health_ms: int | None) -> bool:
    """Whether what a device last said can only come from two machines, or whether it says so itself.

    Args:
        presence: its newest session.
        health: its newest health; None where there is none, or it cannot be read.
        health_ms: when that arrived.
    """
    if health is None or health_ms is None:
        return False
    if TWO_PLACES in health.degraded:
        return True
    # a machine that started anew says that it is there before it says how it is
    return (
        presence is not None
        and health.boot_id != presence.boot_id
        and health_ms > presence.since_ms + REORDERED_MS
    )


def devices_in_two_places(session: Session, now_ms: int) -> list[str]:
    """Ids of active devices that lately connected from two places, at most 100."""
    rows = session.execute(
        select(HealthRow.device, HealthRow.received_ms, HealthRow.body, PresenceRow)
        .join(DeviceRow, DeviceRow.id == HealthRow.device)
        .join(PresenceRow, PresenceRow.device == HealthRow.device, isouter=True)
        .where(DeviceRow.state == "active", HealthRow.received_ms > now_ms - LOOKED_BACK_MS)
        .order_by(HealthRow.device)
    )
    found = [
        device
        for device, health_ms, body, presence in rows
        if in_two_places(presence, _read(body), health_ms)
    ]
    return found[:_MOST]


def _read(body: bytes) -> Health | None:
    try:
        return Health.decode(body)
    except WireError:
        return None
