"""A device's certificate that ran out while the device was away: the same one, with an end that has passed."""

from dataclasses import dataclass, replace

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import func, select, update

from edge_runtime.clock import NS_PER_S, Clock, WallLabel
from edge_runtime.identity.files import AUTHORITY, CERTIFICATE, KEY, load_record, read_text, save
from edge_runtime.state import StateDirectory
from fleet_server.authority import CertificateAuthority
from fleet_server.devices.issuing import EnrolmentRules
from fleet_server.paths import ServerPaths
from fleet_server.storage import open_store
from fleet_server.storage.device_tables import CertificateRow
from sim.process import RoadError
from sim.road import Server

_SINCE_S = 3600
_GRACE_S = EnrolmentRules().grace_s + 86_400


def expire(server: Server, state: StateDirectory, clock: Clock, *, forgotten: bool = False) -> None:
    """Let the certificate have ended, at the device and in the server's table.

    Args:
        server: of the fleet; its authority signs the same name, key and serial again.
        state: of the device, which does not run.
        clock: for the dates.
        forgotten: longer ago than the server's grace, and not an hour ago.

    Raises:
        RoadError: the device is not enrolled.
    """
    record = load_record(state)
    if record is None:
        raise RoadError("the device is not enrolled: it has no certificate that could run out")
    found = x509.load_pem_x509_certificate(read_text(state, CERTIFICATE).encode())
    key = found.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    serial = str(found.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)[0].value)
    paths = ServerPaths(server.data)
    signing = _Earlier(clock, _GRACE_S if forgotten else 0)
    authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, signing)
    issued = authority.sign_client(record.device, key, serial=serial, lifetime_s=-_SINCE_S)
    files = {name: read_text(state, name).encode() for name in (KEY, AUTHORITY)}
    save(
        state,
        {**files, CERTIFICATE: issued.pem.encode()},
        record.model_copy(update={"not_after_ms": issued.not_after_ms, "renew_at_ms": issued.not_after_ms}),
    )
    store = open_store(server.database)
    try:
        with store.write() as session:
            session.execute(
                update(CertificateRow)
                .where(CertificateRow.serial == serial)
                .values(pem=issued.pem, not_after_ms=issued.not_after_ms)
            )
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A clock that shows what it was some seconds ago."""

    clock: Clock
    seconds: int

    def monotonic_ns(self) -> int:
        return self.clock.monotonic_ns()

    def boottime_ns(self) -> int:
        return self.clock.boottime_ns()

    def wall(self) -> WallLabel:
        now = self.clock.wall()
        return replace(now, unix_ns=now.unix_ns - self.seconds * NS_PER_S)


def certificates(server: Server) -> int:
    """How many the server has signed."""
    store = open_store(server.database)
    try:
        with store.read() as session:
            signed = select(func.count()).select_from(CertificateRow).where(CertificateRow.pem.is_not(None))
            return int(session.execute(signed).scalar_one())
    finally:
        store.close()
