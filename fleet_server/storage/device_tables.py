"""Tables of who may connect: devices, their certificates, invitations, and what they last said of themselves."""

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from fleet_server.storage.base import Base, BigId


class DeviceRow(Base):
    """One device.

    Attributes:
        state: `active`, `pending` (waits for an operator), `revoked` or `removed`.
        labels: key to value, both text.
    """

    __tablename__ = "devices"

    id: Mapped[str] = mapped_column(String(63), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    serial: Mapped[str | None] = mapped_column(String(64), unique=True)
    labels: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    created_ms: Mapped[int] = mapped_column(BigInteger)
    changed_ms: Mapped[int] = mapped_column(BigInteger)


class CertificateRow(Base):
    """Every certificate ever issued to a device.

    Attributes:
        serial: of the certificate, hexadecimal; also in its subject, so that a broker can tell two of one device.
        state: `active`, `pending` (a new key for a known device), `superseded` or `revoked`.
        pem: None while pending; `csr` is then what will be signed.
        key_sha256: of the public key (SPKI), hexadecimal.
    """

    __tablename__ = "certificates"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    device: Mapped[str] = mapped_column(ForeignKey("devices.id"), index=True)
    serial: Mapped[str] = mapped_column(String(40), unique=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    key_sha256: Mapped[str] = mapped_column(String(64), index=True)
    csr: Mapped[str] = mapped_column(Text)
    pem: Mapped[str | None] = mapped_column(Text)
    not_after_ms: Mapped[int | None] = mapped_column(BigInteger)
    created_ms: Mapped[int] = mapped_column(BigInteger)
    changed_ms: Mapped[int] = mapped_column(BigInteger)


class InvitationRow(Base):
    """A one-time token, or one claim for a list of serial numbers.

    Attributes:
        secret_sha256: the token itself is not kept.
        serials: serial numbers that may still use it; None for a token for one device.
        uses_left: 0 when it is used up.
        wrong_secrets: how often its id came with another secret; ten make it void.
        needs_approval: devices that use it are pending until an operator accepts them.
    """

    __tablename__ = "invitations"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    secret_sha256: Mapped[str] = mapped_column(String(64))
    device: Mapped[str | None] = mapped_column(String(63))
    labels: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    serials: Mapped[list[str] | None] = mapped_column(JSON)
    uses_left: Mapped[int]
    wrong_secrets: Mapped[int] = mapped_column(default=0)
    needs_approval: Mapped[bool] = mapped_column(default=False)
    expires_ms: Mapped[int] = mapped_column(BigInteger)
    created_ms: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str] = mapped_column(String(64))


class RenewalNonceRow(Base):
    """A nonce with which a certificate was renewed; kept until it has run out anyway, so that it is used once."""

    __tablename__ = "renewal_nonces"

    nonce: Mapped[str] = mapped_column(String(64), primary_key=True)
    expires_ms: Mapped[int] = mapped_column(BigInteger, index=True)


class PresenceRow(Base):
    """The newest presence of each device; an older session never replaces a newer one."""

    __tablename__ = "presence"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    session: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(32))
    boot_id: Mapped[str] = mapped_column(String(64))
    runtime: Mapped[str] = mapped_column(String(32))
    since_ms: Mapped[int] = mapped_column(BigInteger)
    stale_ignored: Mapped[int] = mapped_column(BigInteger, default=0)


class HealthRow(Base):
    """The newest health of each device, as it sent it (an encoded `protocol.operation.Health`)."""

    __tablename__ = "health"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    received_ms: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class HeldRow(Base):
    """What a device said waits for a person: the newest list of each device, one row an item, no content."""

    __tablename__ = "held"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    key: Mapped[str] = mapped_column(String(32), primary_key=True)
    received_ms: Mapped[int] = mapped_column(BigInteger)
    expires_ms: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class HeldListRow(Base):
    """The newest list of held items of each device, and how many it holds in all: a list names at most 100."""

    __tablename__ = "held_lists"

    device: Mapped[str] = mapped_column(String(63), primary_key=True)
    total: Mapped[int] = mapped_column(BigInteger)
    received_ms: Mapped[int] = mapped_column(BigInteger)


class CommandRow(Base):
    """A command to a device: this table is the queue from which the running server publishes.

    Attributes:
        state: `queued`, `sent`, `done`, `failed` or `expired`.
    """

    __tablename__ = "commands"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    device: Mapped[str] = mapped_column(String(63))
    kind: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16))
    by: Mapped[str] = mapped_column(String(64))
    issued_ms: Mapped[int] = mapped_column(BigInteger)
    expires_ms: Mapped[int] = mapped_column(BigInteger)
    sent_ms: Mapped[int | None] = mapped_column(BigInteger)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    result: Mapped[str | None] = mapped_column(String(200))

    __table_args__ = (Index("ix_commands_state_device", "state", "device"),)
