"""What operators do with devices: invite, approve, revoke, remove, label; each one transaction with its audit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.orm import Session

from edge_runtime.clock import Clock
from edge_runtime.protocol.topics import DEVICE_PATTERN
from fleet_server.authority import CertificateAuthority, CertificateRequest, RequestError
from fleet_server.authority.authority import now_ms
from fleet_server.devices.invitations import (
    DEFAULT_EXPIRES_S,
    LONGEST_EXPIRES_S,
    MAX_SERIALS,
    Invitation,
    make_invitation,
)
from fleet_server.devices.issuing import EnrolmentRules, sign
from fleet_server.devices.names import is_reserved
from fleet_server.devices.problems import DeviceProblem, ProblemCode
from fleet_server.devices.states import (
    CertificateState,
    DeviceState,
    RecordAct,
    bump,
    certificates_of,
    locked_device,
    put_out,
)
from fleet_server.storage import Store
from fleet_server.storage.device_tables import CertificateRow, DeviceRow, PresenceRow
from fleet_server.storage.event_tables import EpochRow

MAX_LABELS = 32
_DEVICE = re.compile(DEVICE_PATTERN)
_SERIAL = re.compile(r"[\x21-\x7e]{1,64}")
_LABEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9 _./:@+-]{0,64}")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A key that an operator accepted.

    Attributes:
        serial: of its certificate, hexadecimal.
        not_after_ms: when that ends, milliseconds since 1970.
        superseded: how many older certificates it put out.
    """

    device: str
    serial: str
    key_sha256: str
    not_after_ms: int
    superseded: int


class DeviceRegistry:
    """Acts of operators. Thread-safe; `by` is who acts, as the audit shows it.

    Args:
        store: the database.
        authority: signs what is approved.
        clock: its wall clock dates everything.
        audit: writes an act into the audit within the transaction.
        rules: lifetimes of certificates.
    """

    def __init__(
        self,
        store: Store,
        authority: CertificateAuthority,
        clock: Clock,
        audit: RecordAct,
        rules: EnrolmentRules | None = None,
    ) -> None:
        self._store, self._authority, self._clock, self._audit = store, authority, clock, audit
        self._rules = rules or EnrolmentRules()

    def invite(
        self,
        by: str,
        *,
        device: str | None = None,
        labels: Mapping[str, str] | None = None,
        serials: Sequence[str] | None = None,
        expires_s: int = DEFAULT_EXPIRES_S,
        needs_approval: bool = False,
    ) -> Invitation:
        """A token for one device, or one claim for a list of serial numbers.

        Args:
            by: operator.
            device: the id that the device gets; None lets the device wish or the server choose.
            labels: given to devices that use it.
            serials: serial numbers of a batch, at most 10,000.
            expires_s: seconds until it expires, at most a year.
            needs_approval: devices that use it wait for an operator.

        Raises:
            DeviceProblem: a value cannot be used.
        """
        _check_invitation(device, serials, expires_s)
        _check_labels(labels or {})
        with self._store.write() as session:
            invitation = make_invitation(
                session,
                authority=self._authority.fingerprint,
                by=by,
                now_ms=self._now(),
                device=device,
                labels=labels or {},
                serials=serials,
                expires_s=expires_s,
                needs_approval=needs_approval,
            )
            detail = {
                "expires_ms": invitation.expires_ms,
                "uses": invitation.uses,
                "approval": needs_approval,
            }
            self._audit(
                session, by, "device.invite", device or invitation.id, {"token": invitation.id, **detail}
            )
        return invitation

    def approve(self, by: str, device: str, key_sha256: str | None = None) -> Accepted:
        """Accept a key that waits; all older certificates of the device are out at once, and its other keys too.

        Args:
            by: operator.
            device: whose.
            key_sha256: the key that the operator has seen, or its beginning; may be None while only one waits.

        Raises:
            DeviceProblem: no such device, nothing waits, or more than one key fits.
        """
        with self._store.write() as session:
            row = self._known(session, device)
            waiting = certificates_of(session, device, CertificateState.PENDING)
            chosen = _choose(device, waiting, key_sha256)
            now = self._now()
            try:
                wanted = CertificateRequest.parse(chosen.csr)
            except RequestError as error:
                raise DeviceProblem(ProblemCode.REQUEST_INVALID, str(error)) from None
            older = certificates_of(session, device, CertificateState.ACTIVE)
            put_out(
                [*older, *(other for other in waiting if other is not chosen)],
                CertificateState.SUPERSEDED,
                now,
            )
            sign(self._authority, chosen, wanted, self._rules, now)
            row.state, row.changed_ms = DeviceState.ACTIVE.value, now
            _clear_what_old_keys_used_up(session, device)
            bump(session)
            detail = {"certificate": chosen.serial, "key_sha256": chosen.key_sha256, "superseded": len(older)}
            self._audit(session, by, "device.approve", device, detail)
            return Accepted(device, chosen.serial, chosen.key_sha256, chosen.not_after_ms or 0, len(older))

    def revoke(self, by: str, device: str, reason: str | None = None) -> int:
        """Put a device out: all of its certificates and waiting keys. It may enrol again and wait for approval.

        Returns:
            How many certificates were good until now.

        Raises:
            DeviceProblem: no such device.
        """
        return self._put_out(by, device, DeviceState.REVOKED, "device.revoke", reason)

    def remove(self, by: str, device: str, reason: str | None = None) -> int:
        """As `revoke`, and no longer list the device. Its events and the audit stay.

        Returns:
            How many certificates were good until now.

        Raises:
            DeviceProblem: no such device.
        """
        return self._put_out(by, device, DeviceState.REMOVED, "device.remove", reason)

    def label(self, by: str, device: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set labels; None takes one away.

        Returns:
            All labels of the device.

        Raises:
            DeviceProblem: no such device, a label cannot be used, or there would be more than 32.
        """
        _check_labels({key: value or "" for key, value in changes.items()})
        with self._store.write() as session:
            row = self._known(session, device)
            labels = {**row.labels, **changes}
            kept = {key: value for key, value in sorted(labels.items()) if value is not None}
            if len(kept) > MAX_LABELS:
                raise DeviceProblem(ProblemCode.INVALID, f"a device has at most {MAX_LABELS} labels")
            row.labels, row.changed_ms = kept, self._now()
            self._audit(session, by, "device.label", device, {"labels": dict(changes)})
            return kept

    def _put_out(self, by: str, device: str, state: DeviceState, action: str, reason: str | None) -> int:
        with self._store.write() as session:
            row = self._known(session, device)
            now = self._now()
            good = certificates_of(session, device, CertificateState.ACTIVE)
            waiting = certificates_of(session, device, CertificateState.PENDING)
            put_out([*good, *waiting], CertificateState.REVOKED, now)
            row.state, row.changed_ms = state.value, now
            bump(session)
            detail = {
                "certificates": [certificate.serial for certificate in good],
                "reason": (reason or "")[:200],
            }
            self._audit(session, by, action, device, detail)
            return len(good)

    def _known(self, session: Session, device: str) -> DeviceRow:
        row = locked_device(session, device)
        if row is None:
            raise DeviceProblem(ProblemCode.DEVICE_UNKNOWN, f"there is no device {device[:63]}")
        return row

    def _now(self) -> int:
        return now_ms(self._clock)


def _clear_what_old_keys_used_up(session: Session, device: str) -> None:
    """Who had the old key may have named a huge session, and begun as many outbox files as a device may have.

    Any session is newer than 0. The outbox files stay, with what was settled in them: one may be the device's own,
    which goes on with its numbers.
    """
    session.execute(update(PresenceRow).where(PresenceRow.device == device).values(session=0))
    session.execute(update(EpochRow).where(EpochRow.device == device).values(first_ms=0))


def _choose(device: str, waiting: Sequence[CertificateRow], key_sha256: str | None) -> CertificateRow:
    """The one waiting key that is meant."""
    fitting = [row for row in waiting if key_sha256 is None or row.key_sha256.startswith(key_sha256.lower())]
    if not fitting:
        what = "waits for approval" if key_sha256 is None else "that waits has this digest"
        raise DeviceProblem(ProblemCode.NOTHING_PENDING, f"no key of {device} {what}")
    if len(fitting) > 1:
        digests = ", ".join(row.key_sha256[:16] for row in fitting)
        raise DeviceProblem(
            ProblemCode.KEY_AMBIGUOUS,
            f"{len(fitting)} keys of {device} wait ({digests}): compare with the device and name one",
        )
    return fitting[0]


def _check_invitation(device: str | None, serials: Sequence[str] | None, expires_s: int) -> None:
    if device is not None and serials is not None:
        raise DeviceProblem(
            ProblemCode.INVALID, "an invitation is for one device or for a list of serials, not both"
        )
    if device is not None and not _DEVICE.fullmatch(device):
        raise DeviceProblem(
            ProblemCode.INVALID, "a device id has 1 to 63 lower-case letters, digits and inner hyphens"
        )
    if device is not None and is_reserved(device):
        raise DeviceProblem(ProblemCode.NAME_RESERVED, "names that begin with fleet- are the server's own")
    if serials is not None and not 1 <= len(serials) <= MAX_SERIALS:
        raise DeviceProblem(ProblemCode.INVALID, f"a batch has 1 to {MAX_SERIALS} serial numbers")
    if serials is not None and not all(_SERIAL.fullmatch(serial) for serial in serials):
        raise DeviceProblem(
            ProblemCode.INVALID, "a serial number has 1 to 64 printable ASCII characters without blanks"
        )
    if not 1 <= expires_s <= LONGEST_EXPIRES_S:
        raise DeviceProblem(ProblemCode.INVALID, "an invitation lasts between a second and a year")


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise DeviceProblem(ProblemCode.INVALID, f"a device has at most {MAX_LABELS} labels")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            raise DeviceProblem(ProblemCode.INVALID, "a label's name has 1 to 63 letters, digits or _./-")
        if not _LABEL.fullmatch(value):
            raise DeviceProblem(
                ProblemCode.INVALID, f"the label {key} has up to 64 letters, digits, blanks or _./:@+-"
            )
