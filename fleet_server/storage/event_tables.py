"""Tables of what devices delivered: events, the gaps that were closed, dead letters and evidence."""

from sqlalchemy import (
    BigInteger,
    Index,
    Integer,
    LargeBinary,
    ScalarSelect,
    SmallInteger,
    String,
    func,
    select,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from fleet_server.storage.base import Base, BigId

MINUTE_MS = 60_000


class EventRow(Base):
    """One committed event revision. The unique key makes a resend harmless.

    Attributes:
        id: order of arrival; `fleet events tail` follows it.
        key: UUIDv7 of the delivery, 16 bytes; time-ordered, which is worth 1.4 times the insert rate.
        body: the encoded `protocol.delivery.ApprovedEvent` as it came; a repeated key with another body is a
            conflict and not a duplicate.
        at_ms: the event's own wall label; trust it only when `synced`.
        evidence_sha256: evidence that its decision lets go, or None.
    """

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    key: Mapped[bytes] = mapped_column(LargeBinary(16), unique=True)
    device: Mapped[str] = mapped_column(String(63))
    epoch: Mapped[str] = mapped_column(String(36))
    seq: Mapped[int] = mapped_column(BigInteger)
    event: Mapped[str] = mapped_column(String(128))
    revision: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(128))
    rule: Mapped[str] = mapped_column(String(128))
    camera: Mapped[str] = mapped_column(String(128))
    severity: Mapped[int] = mapped_column(SmallInteger)
    data_class: Mapped[str] = mapped_column(String(16))
    at_ms: Mapped[int] = mapped_column(BigInteger)
    synced: Mapped[bool]
    received_ms: Mapped[int] = mapped_column(BigInteger)
    evidence_sha256: Mapped[str | None] = mapped_column(String(64))
    body: Mapped[bytes] = mapped_column(LargeBinary)

    # Every index costs each event. This one is read by `events list --device`, the next by retention; what came
    # when is told by `EventMinuteRow`.
    __table_args__ = (
        Index("ix_events_device_id", "device", "id"),
        # Most events have none: a partial index costs them nothing.
        Index(
            "ix_events_evidence",
            "evidence_sha256",
            sqlite_where=text("evidence_sha256 IS NOT NULL"),
            postgresql_where=text("evidence_sha256 IS NOT NULL"),
        ),
    )


class EventMinuteRow(Base):
    """Which events were committed in one minute of the server's wall clock: between these ids, both included.

    One row a minute instead of an index entry an event. Others may lie between them when the clock was set back, so
    `received_ms` has the last word.
    """

    __tablename__ = "event_minutes"

    minute: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    first_id: Mapped[int] = mapped_column(BigInteger)
    last_id: Mapped[int] = mapped_column(BigInteger)

    @classmethod
    def first_since(cls, since_ms: int) -> ScalarSelect[int | None]:
        """No event that was committed since then has a smaller id; NULL where there is none."""
        return select(func.min(cls.first_id)).where(cls.minute >= since_ms // MINUTE_MS).scalar_subquery()

    @classmethod
    def last_before(cls, until_ms: int) -> ScalarSelect[int | None]:
        """No event that was committed before then has a larger id; NULL where there is none."""
        return (
            select(func.max(cls.last_id)).where(cls.minute <= (until_ms - 1) // MINUTE_MS).scalar_subquery()
        )


class EpochRow(Base):
    """One outbox file of one device, and how far it is settled.

    Attributes:
        high: every sequence number up to here is settled.
        first_ms: when the server first heard of it; 0 for an outbox file of a key that an operator has replaced,
            which does not count against the present key's.
        seen_ms: when the server last heard of it.
        surplus: events committed under a sequence number that was settled before: the device had given them up,
            or it used the number twice. `delivered + surplus` is the number of rows that were stored.
        accepted … lost: the device's own ledger as it last reported it.
        reported_ms: when it did.
    """

    __tablename__ = "epochs"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    epoch: Mapped[str] = mapped_column(String(36), primary_key=True)
    high: Mapped[int] = mapped_column(BigInteger, default=0)
    first_ms: Mapped[int] = mapped_column(BigInteger)
    seen_ms: Mapped[int] = mapped_column(BigInteger)
    surplus: Mapped[int] = mapped_column(BigInteger, default=0)
    reported_ms: Mapped[int | None] = mapped_column(BigInteger)
    accepted: Mapped[int] = mapped_column(BigInteger, default=0)
    queued: Mapped[int] = mapped_column(BigInteger, default=0)
    delivered: Mapped[int] = mapped_column(BigInteger, default=0)
    expired: Mapped[int] = mapped_column(BigInteger, default=0)
    evicted: Mapped[int] = mapped_column(BigInteger, default=0)
    rejected: Mapped[int] = mapped_column(BigInteger, default=0)
    lost: Mapped[int] = mapped_column(BigInteger, default=0)


class SettledRow(Base):
    """A run of settled sequence numbers beyond `high`, with how it was settled.

    Attributes:
        fate: `delivered`, or what the device reported. A rejection by the server settles nothing: the number
            stays open until the device reports that it knows, or a lost receipt would pass for a delivery. Rows
            at or below `high` are folded into `FateCountRow` and deleted.
    """

    __tablename__ = "settled"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    epoch: Mapped[str] = mapped_column(String(36), primary_key=True)
    first: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    last: Mapped[int] = mapped_column(BigInteger)
    fate: Mapped[str] = mapped_column(String(16))


class FateCountRow(Base):
    """How many sequence numbers of an epoch the server knows to have ended in each fate."""

    __tablename__ = "fate_counts"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    epoch: Mapped[str] = mapped_column(String(36), primary_key=True)
    fate: Mapped[str] = mapped_column(String(16), primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger, default=0)


class DeadLetterRow(Base):
    """What was refused, bounded in number and size: enough to find out why, never acted on.

    Attributes:
        body: the first 16 KiB of what came.
        code: a `protocol.delivery.RejectionCode` or a `protocol.wire.WireFault`.
    """

    __tablename__ = "dead_letters"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    device: Mapped[str] = mapped_column(String(63), index=True)
    channel: Mapped[str] = mapped_column(String(16))
    received_ms: Mapped[int] = mapped_column(BigInteger)
    code: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(String(200))
    key: Mapped[bytes | None] = mapped_column(LargeBinary(16))
    seq: Mapped[int | None] = mapped_column(BigInteger)
    size: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class EvidenceRow(Base):
    """Evidence that a committed decision names. The file lies in the evidence folder by its digest.

    Attributes:
        state: `expected`, `partial` or `complete`.
    """

    __tablename__ = "evidence"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    bytes: Mapped[int] = mapped_column(BigInteger)
    mode: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    received: Mapped[int] = mapped_column(BigInteger, default=0)
    changed_ms: Mapped[int] = mapped_column(BigInteger)
