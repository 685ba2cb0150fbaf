"""Renewal: a device that still has its key, and a certificate that nobody put out, gets the next one."""

import base64
import binascii

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from edge_runtime.protocol.enrolment import EnrolmentResponse, RenewalRequest, renewal_message
from fleet_server.authority import CertificateAuthority, CertificateRequest, RequestError
from fleet_server.authority.authority import new_serial
from fleet_server.devices.issuing import Issuer
from fleet_server.devices.nonces import NonceMaker
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
from fleet_server.storage.device_tables import CertificateRow, DeviceRow, RenewalNonceRow
from fleet_server.storage.writing import insert, table

MAX_RENEWALS_A_DAY = 24
_DAY_MS = 86_400_000


class Renewal:
    """Decides renewals, each in the caller's transaction.

    Args:
        issuer: signs and answers.
        audit: writes an act into the audit.
        nonces: tells whether a challenge is ours.
    """

    def __init__(self, issuer: Issuer, audit: RecordAct, nonces: NonceMaker) -> None:
        self._issuer, self._audit, self._nonces = issuer, audit, nonces

    def renew(self, session: Session, request: RenewalRequest) -> EnrolmentResponse:
        """The next certificate.

        Raises:
            DeviceProblem: refused; nothing may be committed then.
        """
        now = self._issuer.now()
        ends_ms = self._nonces.expires_ms(request.nonce, now)
        if ends_ms is None:
            raise DeviceProblem(
                ProblemCode.NONCE_REFUSED, "this challenge has ended or is not ours: ask for one"
            )
        shown = certificate_in(request.certificate, self._issuer.authority)
        row = session.scalar(
            select(CertificateRow)
            .where(CertificateRow.serial == f"{shown.serial_number:x}")
            .with_for_update()
        )
        device = locked_device(session, row.device) if row is not None else None
        if row is None or device is None:
            raise DeviceProblem(
                ProblemCode.CERTIFICATE_REFUSED, "this certificate is not in the server's books"
            )
        check_renewable(row, device, now, self._issuer.rules.grace_s)
        if not is_signed_by(shown, request):
            raise DeviceProblem(
                ProblemCode.SIGNATURE_REFUSED, "the renewal is not signed by the certificate's key"
            )
        self._use_nonce(session, request.nonce, ends_ms, now)
        wanted = self._next_key(session, request.csr, device.id)
        self._check_rate(session, device.id, now)
        others = certificates_of(session, device.id, CertificateState.ACTIVE)
        put_out([other for other in others if other.id != row.id], CertificateState.SUPERSEDED, now)
        certificate = CertificateRow(
            device=device.id,
            serial=new_serial(),
            state=CertificateState.PENDING.value,
            key_sha256=wanted.key_sha256,
            csr=request.csr,
            created_ms=now,
            changed_ms=now,
        )
        self._issuer.sign(certificate, wanted)
        session.add(certificate)
        bump(session)
        detail = {"certificate": certificate.serial, "replaces": row.serial, "key_sha256": wanted.key_sha256}
        self._audit(session, f"device:{device.id}", "certificate.renewed", device.id, detail)
        return self._issuer.answer(certificate)

    def _use_nonce(self, session: Session, nonce: str, ends_ms: int, now: int) -> None:
        session.execute(delete(RenewalNonceRow).where(RenewalNonceRow.expires_ms <= now))
        statement = insert(session.connection(), table(RenewalNonceRow)).values(
            nonce=nonce, expires_ms=ends_ms
        )
        written = session.execute(
            statement.on_conflict_do_nothing().returning(table(RenewalNonceRow).c.nonce)
        ).first()
        if written is None:
            raise DeviceProblem(ProblemCode.NONCE_REFUSED, "this challenge was answered already: ask for one")

    def _next_key(self, session: Session, csr: str, device: str) -> CertificateRequest:
        """The key of a renewal: a new one, or the device's own active one again."""
        try:
            wanted = CertificateRequest.parse(csr)
        except RequestError as error:
            raise DeviceProblem(ProblemCode.REQUEST_INVALID, str(error)) from None
        others = session.execute(
            select(CertificateRow.device, CertificateRow.state).where(
                CertificateRow.key_sha256 == wanted.key_sha256
            )
        )
        if any(owner != device or state == CertificateState.REVOKED.value for owner, state in others):
            raise DeviceProblem(ProblemCode.KEY_REFUSED, "this key cannot be used: make a new one")
        return wanted

    def _check_rate(self, session: Session, device: str, now: int) -> None:
        recent = session.scalar(
            select(func.count())
            .select_from(CertificateRow)
            .where(CertificateRow.device == device, CertificateRow.created_ms > now - _DAY_MS)
        )
        if (recent or 0) >= MAX_RENEWALS_A_DAY:
            raise DeviceProblem(
                ProblemCode.RENEWAL_TOO_OFTEN, f"this device renewed {MAX_RENEWALS_A_DAY} times within a day"
            )


def certificate_in(pem: str, authority: CertificateAuthority) -> x509.Certificate:
    """The certificate in a text, if this authority signed it.

    Raises:
        DeviceProblem: it is none, or another authority's.
    """
    try:
        found = x509.load_pem_x509_certificate(pem.encode())
        is_ours = authority.has_signed(found)
    except (ValueError, x509.InvalidVersion):
        is_ours = False
    if not is_ours:
        raise DeviceProblem(
            ProblemCode.CERTIFICATE_REFUSED, "this is no certificate of this server's authority: enrol again"
        )
    return found


def check_renewable(row: CertificateRow, device: DeviceRow, now_ms: int, grace_s: int) -> None:
    """Whether what the books say of a certificate lets it be renewed.

    Args:
        row: the certificate.
        device: whose it is.
        now_ms: milliseconds since 1970.
        grace_s: how long after its end it may still be renewed.

    Raises:
        DeviceProblem: it may not.
    """
    if row.state == CertificateState.SUPERSEDED.value:
        raise DeviceProblem(
            ProblemCode.CERTIFICATE_SUPERSEDED, "a newer certificate took this one's place: enrol again"
        )
    if row.state != CertificateState.ACTIVE.value or device.state != DeviceState.ACTIVE.value:
        raise DeviceProblem(ProblemCode.CERTIFICATE_REVOKED, "this certificate was revoked: ask the operator")
    if row.not_after_ms is None or row.not_after_ms + grace_s * 1000 <= now_ms:
        raise DeviceProblem(
            ProblemCode.RENEWAL_TOO_LATE,
            f"this certificate ran out more than {grace_s // 86_400} days ago: enrol again",
        )


def is_signed_by(certificate: x509.Certificate, request: RenewalRequest) -> bool:
    """Whether the renewal was signed with the certificate's private key."""
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        signature = base64.b64decode(request.signature, validate=True)
        key.verify(signature, renewal_message(request.nonce, request.csr), ec.ECDSA(hashes.SHA256()))
    except (binascii.Error, ValueError, InvalidSignature):
        return False
    return True
