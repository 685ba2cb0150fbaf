"""A fleet server's enrolment room for tests: service, registry, an audit that is kept, and devices that ask."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS
from edge_runtime.protocol.enrolment import (
    BrokerAddress,
    EnrolmentRequest,
    EnrolmentToken,
    RenewalRequest,
    renewal_message,
)
from fleet_server.authority import CertificateAuthority
from fleet_server.devices import (
    DeviceRegistry,
    EnrolmentService,
    generation,
    good_certificates,
    revoked_certificates,
)
from fleet_server.storage import Store
from fleet_server.storage.device_tables import CertificateRow, DeviceRow
from tests.rigs.pki import MovableClock

BROKER = BrokerAddress(host="fleet.example", port=8883)


@dataclass
class Asker:
    """A device: it has a key and asks with it."""

    name: str | None = None
    serial: str | None = None
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def csr(self, common_name: str | None = None) -> str:
        names = [] if common_name is None else [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()

    def request(self, token: str, **changed: Any) -> EnrolmentRequest:
        found = EnrolmentToken.parse(token)
        values = {
            "token_id": found.id,
            "secret": found.secret,
            "csr": self.csr(),
            "serial": self.serial,
            "device": self.name,
        }
        return EnrolmentRequest(**(values | changed))

    def renewal(
        self, certificate: str, nonce: str, new: "Asker | None" = None, **changed: Any
    ) -> RenewalRequest:
        csr = (new or self).csr()
        signature = self.key.sign(renewal_message(nonce, csr), ec.ECDSA(hashes.SHA256()))
        values = {
            "certificate": certificate,
            "csr": csr,
            "nonce": nonce,
            "signature": base64.b64encode(signature).decode(),
        }
        return RenewalRequest(**(values | changed))


class Office:
    """The server's side, on a real database."""

    def __init__(self, store: Store, folder: Path, clock: MovableClock | None = None) -> None:
        clock = clock or MovableClock()
        self._open(store, CertificateAuthority.create(folder / "ca.key", folder / "ca.pem", clock), clock)

    @classmethod
    def at(cls, store: Store, authority: CertificateAuthority, clock: MovableClock) -> "Office":
        """An office with an authority that exists."""
        office = cls.__new__(cls)
        office._open(store, authority, clock)
        return office

    def _open(self, store: Store, authority: CertificateAuthority, clock: MovableClock) -> None:
        self.store, self.clock, self.authority = store, clock, authority
        self.acts: list[tuple[str, str, str, dict[str, Any]]] = []
        self.service = EnrolmentService(store, self.authority, self.clock, self.record, BROKER)
        self.registry = DeviceRegistry(store, self.authority, self.clock, self.record)

    def record(
        self, session: Session, actor: str, action: str, subject: str, detail: Mapping[str, Any]
    ) -> None:
        assert session.in_transaction()
        self.acts.append((actor, action, subject, dict(detail)))

    def actions(self) -> list[str]:
        return [action for _, action, _, _ in self.acts]

    def good(self) -> set[tuple[str, str]]:
        with self.store.read() as session:
            return {(found.device, found.serial) for found in good_certificates(session, self.now_ms())}

    def out(self) -> set[str]:
        with self.store.read() as session:
            return {entry.serial for entry in revoked_certificates(session, self.now_ms())}

    def generation(self) -> int:
        with self.store.read() as session:
            return generation(session)

    def device(self, name: str) -> DeviceRow:
        with self.store.read() as session:
            row = session.get(DeviceRow, name)
            assert row is not None
            return row

    def certificates(self, name: str) -> list[str]:
        with self.store.read() as session:
            query = (
                select(CertificateRow.state).where(CertificateRow.device == name).order_by(CertificateRow.id)
            )
            return list(session.scalars(query))

    def now_ms(self) -> int:
        return self.clock.wall().unix_ns // NS_PER_MS


def serial_of(pem: str | None) -> str:
    assert pem is not None
    return f"{x509.load_pem_x509_certificate(pem.encode()).serial_number:x}"
