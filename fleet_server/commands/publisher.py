"""From rows to messages. A row is the queue: what was asked survives a restart of the server and of the broker.

A command is published at least once: it counts as sent only after the broker has it, and a device does the same id
once. It is published again when the device has come back since, because a broker may have dropped what it could not
deliver; a device that is away gets no heap of copies.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.protocol.topics import Channel, Topic
from fleet_server.storage.device_tables import CommandRow, PresenceRow
from fleet_server.storage.engine import Store

Publish = Callable[[str, bytes, int], bool]
"""(topic, payload, seconds until it means nothing) → whether the broker has it."""

_AT_ONCE = 32
_REPEAT_MS = 30_000
_EXPIRY_EVERY_MS = 1000


@dataclass(frozen=True, slots=True)
class _Due:
    id: str
    device: str
    body: bytes
    expires_ms: int


class CommandPublisher:
    """Publishes what is due, each time that it is asked.

    Args:
        store: the database.
        publish: sends and waits for the broker's word.
        clock: its wall clock decides what has expired.
    """

    def __init__(self, store: Store, publish: Publish, clock: Clock) -> None:
        self._store, self._publish, self._clock = store, publish, clock
        self._expired_at_ms = 0

    def step(self) -> int:
        """Publish what is due, at most 32; how many the broker took.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is away; everything is due again at the next step.
        """
        now_ms = self._clock.wall().unix_ns // NS_PER_MS
        with self._store.read() as session:
            due, overdue = self._due(session, now_ms), self._has_expired(session, now_ms)
        if overdue:
            self._expire(now_ms)
        sent = [command.id for command in due if self._send(command, now_ms)]
        if sent:
            with self._store.write() as session:
                rows = update(CommandRow).where(
                    CommandRow.id.in_(sent), CommandRow.state.in_(("queued", "sent"))
                )
                session.execute(rows.values(state="sent", sent_ms=now_ms))
        return len(sent)

    def _due(self, session: Session, now_ms: int) -> list[_Due]:
        columns = (CommandRow.id, CommandRow.device, CommandRow.body, CommandRow.expires_ms)
        fresh = (
            select(*columns)
            .where(CommandRow.state == "queued", CommandRow.expires_ms > now_ms)
            .order_by(CommandRow.issued_ms, CommandRow.id)
        )
        again = (
            select(*columns)
            .join(PresenceRow, PresenceRow.device == CommandRow.device)
            .where(
                CommandRow.state == "sent",
                CommandRow.expires_ms > now_ms,
                PresenceRow.state == "online",
                or_(PresenceRow.since_ms > CommandRow.sent_ms, CommandRow.sent_ms <= now_ms - _REPEAT_MS),
            )
            .order_by(CommandRow.issued_ms, CommandRow.id)
        )
        rows = [*session.execute(fresh.limit(_AT_ONCE)), *session.execute(again.limit(_AT_ONCE))]
        return [_Due(*row) for row in rows[:_AT_ONCE]]

    def _send(self, command: _Due, now_ms: int) -> bool:
        left_s = max(1, (command.expires_ms - now_ms) // 1000)
        return self._publish(str(Topic(command.device, Channel.COMMAND)), bytes(command.body), left_s)

    def _has_expired(self, session: Session, now_ms: int) -> bool:
        if now_ms - self._expired_at_ms < _EXPIRY_EVERY_MS:
            return False
        self._expired_at_ms = now_ms
        query = select(CommandRow.id).where(
            CommandRow.state.in_(("queued", "sent")), CommandRow.expires_ms <= now_ms
        )
        return session.scalar(query.limit(1)) is not None

    def _expire(self, now_ms: int) -> None:
        with self._store.write() as session:
            rows = update(CommandRow).where(
                CommandRow.state.in_(("queued", "sent")), CommandRow.expires_ms <= now_ms
            )
            session.execute(rows.values(state="expired"))
