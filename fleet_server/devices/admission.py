"""Admission: what becomes of a token and a key that come for the first time, or again."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.protocol.enrolment import EnrolmentRequest, EnrolmentResponse
from fleet_server.authority import CertificateRequest
from fleet_server.authority.authority import new_serial
from fleet_server.devices.invitations import present, use, why_not_usable
from fleet_server.devices.issuing import Issuer
from fleet_server.devices.names import is_reserved, made_name, wished_name
from fleet_server.devices.problems import DeviceProblem, ProblemCode
from fleet_server.devices.states import (
    CertificateState,
    DeviceState,
    RecordAct,
    bump,
    certificates_of,
    locked_device,
)
from fleet_server.storage.device_tables import CertificateRow, DeviceRow, InvitationRow
from fleet_server.storage.writing import take_turn

_LOCK = 0x666C6565_00000004  # "flee"; the other numbers are in fleet_server.storage

MAX_PENDING = 4
"""Keys of one device that may wait for an operator at the same time."""


class Admission:
    """Decides enrolments, each in the caller's transaction.

    Args:
        issuer: signs and answers.
        audit: writes an act into the audit.
    """

    def __init__(self, issuer: Issuer, audit: RecordAct) -> None:
        self._issuer, self._audit = issuer, audit

    def decide(
        self, session: Session, request: EnrolmentRequest, wanted: CertificateRequest
    ) -> EnrolmentResponse | DeviceProblem:
        """The answer, or the refusal as a value: what it changed must be committed all the same.

        Args:
            session: of a writing transaction.
            request: as it came.
            wanted: the signing request in it.
        """
        take_turn(session.connection(), _LOCK)  # two devices that wish the same name come one after the other
        token = present(session, request.token_id, request.secret)
        row = token.row
        if row is None or not token.is_proved:
            if row is not None and session.is_modified(
                row
            ):  # not beyond the limit: the audit must stay bounded
                self._refused(session, row, ProblemCode.TOKEN_REFUSED, wrong_secrets=row.wrong_secrets)
            return DeviceProblem(
                ProblemCode.TOKEN_REFUSED,
                "there is no such token: copy it again, whole, or ask for a new one",
            )
        known = session.scalar(
            select(CertificateRow)
            .where(CertificateRow.key_sha256 == wanted.key_sha256)
            .order_by(CertificateRow.id.desc())
            .limit(1)
        )
        if known is not None:
            return self._again(known)
        problem = why_not_usable(row, request.serial, self._issuer.now())
        if problem is None:
            found = self._device_for(session, row, request, wanted)
            if not isinstance(found, DeviceProblem):
                use(row, request.serial)
                return self._admit(session, row, found, request.csr, wanted)
            problem = found
        self._refused(session, row, problem.code, serial=request.serial)
        return problem

    def _again(self, row: CertificateRow) -> EnrolmentResponse | DeviceProblem:
        """The answer to a key that was here before."""
        if row.state in (CertificateState.ACTIVE.value, CertificateState.PENDING.value):
            return self._issuer.answer(row)
        return DeviceProblem(
            ProblemCode.KEY_REFUSED, "this key was here before and is out: enrol with a new one"
        )

    def _device_for(
        self, session: Session, row: InvitationRow, request: EnrolmentRequest, wanted: CertificateRequest
    ) -> DeviceRow | DeviceProblem:
        """The device that a usable token is for: one that is known, or a new row that is not yet in the session."""
        by_serial = self._by_serial(session, request.serial)
        name = row.device or (by_serial.id if by_serial is not None else None)
        name = name or wished_name(request.device, wanted.common_name)
        if name is not None and is_reserved(name):
            return DeviceProblem(
                ProblemCode.NAME_RESERVED, "names that begin with fleet- are the server's own"
            )
        if name is None:
            name = made_name(request.serial)
            if session.get(DeviceRow, name) is not None:
                name = made_name(request.serial, distinct=True)
        found = locked_device(session, name)
        if by_serial is not None and by_serial.id != name:
            return DeviceProblem(
                ProblemCode.SERIAL_TAKEN, "this serial number belongs to another device: ask the operator"
            )
        if found is None:
            now = self._issuer.now()
            state = DeviceState.PENDING if row.needs_approval else DeviceState.ACTIVE
            return DeviceRow(
                id=name,
                state=state.value,
                serial=request.serial,
                labels=dict(row.labels),
                created_ms=now,
                changed_ms=now,
            )
        if len(certificates_of(session, name, CertificateState.PENDING)) >= MAX_PENDING:
            return DeviceProblem(
                ProblemCode.TOO_MANY_PENDING,
                f"{MAX_PENDING} keys wait for this device: an operator must decide",
            )
        return found

    def _admit(
        self,
        session: Session,
        invitation: InvitationRow,
        device: DeviceRow,
        csr: str,
        wanted: CertificateRequest,
    ) -> EnrolmentResponse:
        """Write the key down: signed for a new device, pending for one that is known or needs approval."""
        now, is_new = self._issuer.now(), device not in session
        if is_new:
            session.add(device)
            session.flush()
        elif device.state == DeviceState.REMOVED.value:
            device.state, device.changed_ms = DeviceState.PENDING.value, now
        certificate = CertificateRow(
            device=device.id,
            serial=new_serial(),
            state=CertificateState.PENDING.value,
            key_sha256=wanted.key_sha256,
            csr=csr,
            created_ms=now,
            changed_ms=now,
        )
        session.add(certificate)
        if is_new and not invitation.needs_approval:
            self._issuer.sign(certificate, wanted)
            bump(session)
        action = "device.enrolled" if certificate.pem is not None else "device.pending"
        detail = {"token": invitation.id, "key_sha256": wanted.key_sha256, "serial": device.serial}
        self._audit(session, f"token:{invitation.id}", action, device.id, detail)
        session.flush()
        return self._issuer.answer(certificate)

    def _by_serial(self, session: Session, serial: str | None) -> DeviceRow | None:
        if serial is None:
            return None
        return session.scalar(select(DeviceRow).where(DeviceRow.serial == serial))

    def _refused(self, session: Session, row: InvitationRow, code: ProblemCode, **detail: object) -> None:
        self._audit(
            session,
            f"token:{row.id}",
            "enrolment.refused",
            row.device or row.id,
            {"code": code.value, **detail},
        )
