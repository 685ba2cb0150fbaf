"""Tables of operators: their tokens, the audit log, and settings that the server itself keeps."""

from sqlalchemy import BigInteger, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from fleet_server.storage.base import Base, BigId


class ApiTokenRow(Base):
    """A token of the HTTP API; only its digest is kept.

    Attributes:
        role: `viewer`, `operator`, `approver` or `admin`.
    """

    __tablename__ = "api_tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    secret_sha256: Mapped[str] = mapped_column(String(64))
    created_ms: Mapped[int] = mapped_column(BigInteger)
    expires_ms: Mapped[int | None] = mapped_column(BigInteger)
    revoked_ms: Mapped[int | None] = mapped_column(BigInteger)


class AuditRow(Base):
    """One act. Append-only and hash-chained: `hash` covers the row and the hash before it, which no other row has.

    Attributes:
        detail: canonical JSON (sorted keys, no spaces); no secrets and no event content.
    """

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    at_ms: Mapped[int] = mapped_column(BigInteger)
    actor: Mapped[str] = mapped_column(String(80))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(128))
    detail: Mapped[str] = mapped_column(Text)
    previous: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    hash: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)


class GenerationRow(Base):
    """Counters that processes of the server watch: `devices` grows when the broker must be told anew."""

    __tablename__ = "generations"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger)
