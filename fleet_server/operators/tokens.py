"""Tokens of the HTTP API: `eft1.ID.SECRET`. The secret is shown once; the database has its digest.

The secret has 256 random bits, so a plain SHA-256 is as good as a slow hash and costs a request nothing.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.errors import EdgeRuntimeError
from fleet_server.operators.roles import Operator, Role
from fleet_server.storage.operator_tables import ApiTokenRow

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 @._-]{0,63}$"
_NAME = re.compile(NAME_PATTERN)
_TOKEN = re.compile(r"eft1\.(?P<id>[0-9a-f]{16})\.(?P<secret>[A-Za-z0-9_-]{43})")
_NO_DIGEST = "0" * 64
MAX_TOKENS = 10_000


class TokenRefused(EdgeRuntimeError):
    """A token cannot be made or revoked as asked."""


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token without its secret.

    Attributes:
        state: `active`, `expired` or `revoked`.
        expires_ms: milliseconds since 1970; None never.
    """

    id: str
    name: str
    role: Role
    state: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


class TokenBook:
    """Makes, checks and revokes tokens, each in the caller's session.

    Args:
        clock: its wall clock says when a token ends.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def create(
        self, session: Session, name: str, role: Role, expires_s: int | None = None
    ) -> tuple[ApiToken, str]:
        """A new token and its text, which is kept nowhere.

        Args:
            session: of a writing transaction.
            name: 1 to 64 letters, digits, blanks and `@._-`; unique among all tokens, revoked ones too,
                so that the audit names one person.
            role: what it may do.
            expires_s: seconds from now; None for one that does not end.

        Raises:
            TokenRefused: the name is taken or not of that form, or there are too many tokens.
        """
        if not _NAME.fullmatch(name):
            raise TokenRefused(
                "a token's name has 1 to 64 letters, digits, blanks or @._- and begins with a letter or digit"
            )
        if session.scalar(select(ApiTokenRow.id).where(ApiTokenRow.name == name)) is not None:
            raise TokenRefused(f"there is a token {name} already, and names are used once: choose another")
        if len(session.scalars(select(ApiTokenRow.id).limit(MAX_TOKENS)).all()) >= MAX_TOKENS:
            raise TokenRefused(f"there are {MAX_TOKENS} tokens, which is the most that are kept")
        now = self._now_ms()
        secret = secrets.token_urlsafe(32)
        row = ApiTokenRow(
            id=secrets.token_hex(8),
            name=name,
            role=role.value,
            secret_sha256=_digest(secret),
            created_ms=now,
            expires_ms=None if expires_s is None else now + expires_s * 1000,
            revoked_ms=None,
        )
        session.add(row)
        session.flush()
        return self._token(row), f"eft1.{row.id}.{secret}"

    def authenticate(self, session: Session, text: str) -> Operator | None:
        """Whose token this is, or None: unknown, wrong, expired and revoked look the same from outside."""
        found = _TOKEN.fullmatch(text)
        row = session.get(ApiTokenRow, found["id"]) if found is not None else None
        expected = row.secret_sha256 if row is not None else _NO_DIGEST
        matches = hmac.compare_digest(_digest(found["secret"] if found is not None else ""), expected)
        if row is None or not matches or self._token(row).state != "active":
            return None
        return Operator(row.id, row.name, Role(row.role))

    def is_active(self, session: Session, token_id: str) -> bool:
        """Whether a token that was good is still good."""
        row = session.get(ApiTokenRow, token_id)
        return row is not None and self._token(row).state == "active"

    def tokens(self, session: Session) -> list[ApiToken]:
        """All of them, newest first."""
        rows = session.scalars(select(ApiTokenRow).order_by(ApiTokenRow.created_ms.desc(), ApiTokenRow.id))
        return [self._token(row) for row in rows]

    def revoke(self, session: Session, name_or_id: str) -> ApiToken | None:
        """End a token; revoking a revoked one changes nothing.

        Returns:
            The token, or None when there is none of that name or id.

        Raises:
            TokenRefused: it is the last active one of an admin, and nobody could make another.
        """
        row = session.scalar(
            select(ApiTokenRow).where((ApiTokenRow.id == name_or_id) | (ApiTokenRow.name == name_or_id))
        )
        if row is None:
            return None
        if row.revoked_ms is None:
            if self._is_last_admin(session, row):
                raise TokenRefused(f"{row.name} is the last active admin token: create another one first")
            row.revoked_ms = self._now_ms()
            session.flush()
        return self._token(row)

    def _is_last_admin(self, session: Session, row: ApiTokenRow) -> bool:
        if row.role != Role.ADMIN.value or self._token(row).state != "active":
            return False
        rows = session.scalars(select(ApiTokenRow).where(ApiTokenRow.role == Role.ADMIN.value))
        return not any(other.id != row.id and self._token(other).state == "active" for other in rows)

    def _token(self, row: ApiTokenRow) -> ApiToken:
        if row.revoked_ms is not None:
            state = "revoked"
        elif row.expires_ms is not None and row.expires_ms <= self._now_ms():
            state = "expired"
        else:
            state = "active"
        return ApiToken(
            row.id, row.name, Role(row.role), state, row.created_ms, row.expires_ms, row.revoked_ms
        )

    def _now_ms(self) -> int:
        return self._clock.wall().unix_ns // NS_PER_MS


def parse_token(text: str) -> tuple[str, str] | None:
    """Id and secret of a token's text, or None where it is none."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else (found["id"], found["secret"])


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
