"""Which certificates are good at this moment, and which are out before their end: what brokers are told."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleet_server.authority import RevokedCertificate
from fleet_server.devices.states import GENERATION, CertificateState, DeviceState
from fleet_server.storage.device_tables import CertificateRow, DeviceRow
from fleet_server.storage.operator_tables import GenerationRow


@dataclass(frozen=True, slots=True)
class GoodCertificate:
    """A certificate that may be used.

    Attributes:
        serial: hexadecimal.
    """

    device: str
    serial: str


def generation(session: Session) -> int:
    """Grows with every change of what the two functions below say, but for certificates that run out."""
    row = session.get(GenerationRow, GENERATION)
    return 0 if row is None else row.value


def good_certificates(session: Session, now_ms: int) -> list[GoodCertificate]:
    """Active certificates of active devices that have not run out."""
    rows = session.execute(
        select(CertificateRow.device, CertificateRow.serial)
        .join(DeviceRow, DeviceRow.id == CertificateRow.device)
        .where(
            CertificateRow.state == CertificateState.ACTIVE.value,
            DeviceRow.state == DeviceState.ACTIVE.value,
            CertificateRow.not_after_ms > now_ms,
        )
    )
    return [GoodCertificate(device, serial) for device, serial in rows]


def revoked_certificates(session: Session, now_ms: int) -> list[RevokedCertificate]:
    """Certificates that were signed, are out, and would still be good by their dates."""
    rows = session.execute(
        select(CertificateRow.serial, CertificateRow.changed_ms, CertificateRow.state).where(
            CertificateRow.state.in_((CertificateState.REVOKED.value, CertificateState.SUPERSEDED.value)),
            CertificateRow.not_after_ms > now_ms,
        )
    )
    return [
        RevokedCertificate(serial, changed_ms, superseded=state == CertificateState.SUPERSEDED.value)
        for serial, changed_ms, state in rows
    ]
