"""Invitations: who holds one may enrol a device, once, or one device for each serial number of a list."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from edge_runtime.protocol.enrolment import EnrolmentToken
from fleet_server.devices.problems import DeviceProblem, ProblemCode
from fleet_server.storage.device_tables import InvitationRow

MAX_WRONG_SECRETS = 10
"""So many wrong secrets make a token void. One has 256 bits, so this stops noise rather than guessing."""

MAX_SERIALS = 10_000
DEFAULT_EXPIRES_S = 86_400
LONGEST_EXPIRES_S = 365 * 86_400

_NO_DIGEST = "0" * 64


@dataclass(frozen=True, slots=True)
class Invitation:
    """A new invitation.

    Attributes:
        token: shown once; the server keeps only a digest of its secret.
        expires_ms: milliseconds since 1970.
        uses: how many devices it lets in.
    """

    id: str
    token: str
    expires_ms: int
    uses: int


def make_invitation(
    session: Session,
    *,
    authority: str,
    by: str,
    now_ms: int,
    device: str | None,
    labels: Mapping[str, str],
    serials: Sequence[str] | None,
    expires_s: int,
    needs_approval: bool,
) -> Invitation:
    """Write an invitation and return its token.

    Args:
        session: of a writing transaction.
        authority: fingerprint that the token pins.
        by: operator who invites.
        now_ms: the wall clock.
        device: the only id that it is for, or None.
        labels: given to every device that uses it.
        serials: the serial numbers of a batch, or None for one device.
        expires_s: seconds from now.
        needs_approval: devices wait for an operator.
    """
    listed = None if serials is None else list(dict.fromkeys(serials))
    token = EnrolmentToken(id=secrets.token_hex(8), secret=secrets.token_urlsafe(32), authority=authority)
    row = InvitationRow(
        id=token.id,
        secret_sha256=_digest(token.secret),
        device=device,
        labels=dict(labels),
        serials=listed,
        uses_left=1 if listed is None else len(listed),
        wrong_secrets=0,
        needs_approval=needs_approval,
        expires_ms=now_ms + expires_s * 1000,
        created_ms=now_ms,
        created_by=by,
    )
    session.add(row)
    session.flush()
    return Invitation(row.id, str(token), row.expires_ms, row.uses_left)


@dataclass(frozen=True, slots=True)
class Presented:
    """What a token that came is.

    Attributes:
        row: the invitation whose id it has, or None.
        is_proved: its secret is the right one.
    """

    row: InvitationRow | None
    is_proved: bool


def present(session: Session, token_id: str, secret: str) -> Presented:
    """Look a token up and compare its secret in constant time; a wrong one is counted on the row."""
    row = session.get(InvitationRow, token_id, with_for_update=True)
    is_proved = hmac.compare_digest(_digest(secret), row.secret_sha256 if row is not None else _NO_DIGEST)
    if row is not None and not is_proved and row.wrong_secrets < MAX_WRONG_SECRETS:
        row.wrong_secrets += 1
    return Presented(row, is_proved and row is not None)


def why_not_usable(row: InvitationRow, serial: str | None, now_ms: int) -> DeviceProblem | None:
    """Why a proved token lets no new key in, or None when it does."""
    if row.wrong_secrets >= MAX_WRONG_SECRETS:
        return DeviceProblem(
            ProblemCode.TOKEN_VOID, "this token is void after too many wrong secrets: ask for a new one"
        )
    if row.expires_ms <= now_ms:
        return DeviceProblem(ProblemCode.TOKEN_EXPIRED, "this token has expired: ask for a new one")
    if row.uses_left <= 0:
        return DeviceProblem(
            ProblemCode.TOKEN_USED,
            "this token was used already: if that was not you, tell the operator, and ask for a new one",
        )
    if row.serials is not None and serial is None:
        return DeviceProblem(
            ProblemCode.SERIAL_REQUIRED, "this token is for a list of serial numbers: name the device's own"
        )
    if row.serials is not None and serial not in row.serials:
        return DeviceProblem(
            ProblemCode.SERIAL_NOT_LISTED,
            "this serial number is not on the token's list, or was used already",
        )
    return None


def use(row: InvitationRow, serial: str | None) -> None:
    """Take one use away."""
    row.uses_left -= 1
    if row.serials is not None:
        # a new list: SQLAlchemy does not see a change inside the old one
        row.serials = [listed for listed in row.serials if listed != serial]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
