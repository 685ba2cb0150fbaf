"""Desired states: the newest assignments of each device, kept by the broker for whenever the device comes.

A row is the queue, and the director writes it. It counts as sent once the broker has it, and only as long as it
says what was sent. It goes out again when the device has come back since, because a broker may have lost what it
kept. A device that was put out leaves nothing in the broker's store.

Which reports the fleet has is signed here, each time: the broker, and whoever gets into it, is not believed.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from securesystemslib.signer import Signer
from sqlalchemy import Select, bindparam, or_, select, update
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.wire import WireError
from fleet_server.director.desired import DesiredDraft
from fleet_server.director.signing import SigningNow
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.storage.device_tables import DeviceRow, PresenceRow
from fleet_server.storage.engine import Store
from fleet_server.storage.rollout_tables import DesiredRow
from fleet_server.storage.writing import table

Retain = Callable[[Sequence[tuple[str, bytes]]], Sequence[bool]]
"""(topic, payload) of each message → whether the broker keeps it; an empty payload has it keep none."""

QUEUED, SENT, CLEARED = "queued", "sent", "cleared"
AT_ONCE = 256
_OUT = ("revoked", "removed")
_DESIRED = table(DesiredRow)
_log = logging.getLogger("fleet_server.commands")


@dataclass(frozen=True, slots=True)
class _Due:
    device: str
    body: bytes
    becomes: str

    def message(self, signer: Signer | None) -> tuple[str, bytes]:
        """What the broker is given.

        Raises:
            WireError: this build cannot read the row.
        """
        topic = str(Topic(self.device, Channel.DESIRED))
        if self.becomes == CLEARED:
            return topic, b""
        return topic, DesiredDraft.decode(self.body).message(signer)


class DesiredPublisher:
    """Publishes what is due, each time that it is asked.

    Args:
        store: the database.
        retain: sends and waits for the broker's word.
        signing: says what the director signs with.
        clock: its wall clock dates what was sent.
    """

    def __init__(self, store: Store, retain: Retain, signing: SigningNow, clock: Clock) -> None:
        self._store, self._retain, self._signing, self._clock = store, retain, signing, clock
        self._unreadable: dict[str, bytes] = {}

    def step(self) -> int:
        """Publish what is due, at most 256; how many the broker took.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is away; everything is due again at the next step.
        """
        now_ms = self._clock.wall().unix_ns // NS_PER_MS
        with self._store.read() as session:
            due = self._due(session)
            signer = self._signer(session) if due else None
        messages = [(one, message) for one in due if (message := self._message(one, signer)) is not None]
        if not messages:
            return 0
        taken = self._retain([message for _, message in messages])
        sent = [one for (one, _), is_taken in zip(messages, taken, strict=True) if is_taken]
        if sent:
            self._note(sent, now_ms)
        return len(sent)

    def _message(self, one: _Due, signer: Signer | None) -> tuple[str, bytes] | None:
        """What the broker is given; None for a row that another build wrote, which is said once.

        Such a row is left as it is, and so is what the broker keeps for its device, until its next change writes it
        anew.
        """
        try:
            message = one.message(signer)
        except WireError as error:
            self._unreadable[one.device] = one.body
            _log.error("the desired state of %s cannot be read: %s", one.device, error)
            return None
        self._unreadable.pop(one.device, None)
        return message

    def _signer(self, session: Session) -> Signer | None:
        """The director's; without it devices go on to tell of their ends."""
        try:
            return self._signing(session.connection()).signer
        except ReleaseRefused as refused:
            _log.warning("no device is told which of its reports arrived: %s", refused)
            return None

    def _due(self, session: Session) -> list[_Due]:
        put_out = select(DesiredRow.device).where(
            DesiredRow.state != CLEARED, DesiredRow.device.in_(_devices_put_out())
        )
        active = (
            select(DesiredRow.device, DesiredRow.body)
            .join(DeviceRow, DeviceRow.id == DesiredRow.device)
            .where(DeviceRow.state == "active")
        )
        fresh = active.where(DesiredRow.state == QUEUED).order_by(DesiredRow.changed_ms)
        again = active.join(PresenceRow, PresenceRow.device == DesiredRow.device).where(
            DesiredRow.state == SENT,
            PresenceRow.state == "online",
            or_(DesiredRow.sent_ms.is_(None), PresenceRow.since_ms > DesiredRow.sent_ms),
        )
        due = [_Due(device, b"", CLEARED) for device in session.scalars(put_out.limit(AT_ONCE))]
        for query in (fresh, again):
            if len(due) < AT_ONCE:
                # rows that cannot be read keep no others waiting
                rows = session.execute(query.limit(AT_ONCE - len(due) + len(self._unreadable)))
                found = [_Due(device, bytes(body), SENT) for device, body in rows]
                due += [one for one in found if self._unreadable.get(one.device) != one.body]
                due = due[:AT_ONCE]
        return due

    def _note(self, sent: Sequence[_Due], now_ms: int) -> None:
        """A row that the director wrote anew meanwhile, in the same millisecond even, stays as it is: queued."""
        columns = _DESIRED.c
        noted = update(_DESIRED).where(
            columns.device == bindparam("of"), columns.body == bindparam("as_sent")
        )
        kept = [{"of": one.device, "as_sent": one.body} for one in sent if one.becomes == SENT]
        cleared = [one.device for one in sent if one.becomes == CLEARED]
        with self._store.write() as session:
            connection = session.connection()
            if kept:
                connection.execute(noted.values(state=SENT, sent_ms=now_ms), kept)
            if cleared:
                connection.execute(
                    update(_DESIRED)
                    .where(columns.device.in_(cleared), columns.device.in_(_devices_put_out()))
                    .values(state=CLEARED, sent_ms=now_ms)
                )


def _devices_put_out() -> Select[Any]:
    return select(DeviceRow.id).where(DeviceRow.state.in_(_OUT))
