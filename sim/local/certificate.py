"""A device's certificate that ran out while the device was away: the same one, with an end that has passed."""

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import func, select, update

from edge_runtime.clock import Clock
from edge_runtime.identity.files import AUTHORITY, CERTIFICATE, KEY, load_record, read_text, save
from edge_runtime.state import StateDirectory
from fleet_server.authority import CertificateAuthority
from fleet_server.paths import ServerPaths
from fleet_server.storage import open_store
from fleet_server.storage.device_tables import CertificateRow
from sim.process import RoadError
from sim.road import Server

_SINCE_S = 3600


def expire(server: Server, state: StateDirectory, clock: Clock) -> None:
    """Let the certificate have ended an hour ago, at the device and in the server's table.

    Args:
        server: of the fleet; its authority signs the same name, key and serial again.
        state: of the device, which does not run.
        clock: for the dates.

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
    authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, clock)
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


def certificates(server: Server) -> int:
    """How many the server has signed."""
    store = open_store(server.database)
    try:
        with store.read() as session:
            signed = select(func.count()).select_from(CertificateRow).where(CertificateRow.pem.is_not(None))
            return int(session.execute(signed).scalar_one())
    finally:
        store.close()
