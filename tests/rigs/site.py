"""The certificates of a data directory, made by the server's own authority, and devices' certificates."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from cryptography.hazmat.primitives.asymmetric import ec
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from fleet_server.authority import (
    CertificateAuthority,
    CertificateFiles,
    ensure_ingest_certificate,
    ensure_server_certificate,
    subject_of,
)
from fleet_server.authority.authority import new_serial, private_pem
from fleet_server.broker.users import BrokerUser
from tests.rigs.brokers import Recorder, wait_until
from tests.rigs.pki import Credentials, MovableClock


@dataclass
class Site:
    """A data directory's certificates."""

    root: Path
    clock: MovableClock = field(default_factory=MovableClock)

    def __post_init__(self) -> None:
        self.authority_file = self.root / "authority/ca.pem"
        self.authority = CertificateAuthority.create(
            self.root / "authority/ca.key", self.authority_file, self.clock
        )
        self.server = CertificateFiles(self.root / "tls/server.key", self.root / "tls/server.pem")
        self.ingest = CertificateFiles(self.root / "tls/ingest.key", self.root / "tls/ingest.pem")
        ensure_server_certificate(self.authority, self.server, ["localhost", "127.0.0.1"])
        ensure_ingest_certificate(self.authority, self.ingest)

    @property
    def ingest_user(self) -> BrokerUser:
        return BrokerUser(*subject_of(self.ingest.certificate))

    @property
    def ingest_credentials(self) -> Credentials:
        user = self.ingest_user
        return Credentials(
            user.name, user.serial, self.ingest.certificate, self.ingest.key, self.authority_file
        )

    def device(self, name: str) -> Credentials:
        key, serial = ec.generate_private_key(ec.SECP256R1()), new_serial()
        issued = self.authority.sign_client(name, key.public_key(), serial=serial, lifetime_s=86_400)
        certificate, secret = self.root / f"{serial}.pem", self.root / f"{serial}.key"
        certificate.write_text(issued.pem)
        secret.write_bytes(private_pem(key))
        return Credentials(name, serial, certificate, secret, self.authority_file)


def user_of(party: Credentials) -> BrokerUser:
    return BrokerUser(party.name, party.serial)


def connect_to(port: int, party: Credentials, **more: Any) -> Recorder:
    """A client at a NATS on loopback, with the broker's answer in `accepted`; it does not connect again."""
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        client_id=f"{party.name}-{party.serial[:8]}",
        protocol=MQTTProtocolVersion.MQTTv311,
        **more,
    )
    client.tls_set_context(party.client_context())
    client.reconnect_delay_set(60, 60)
    recorder = Recorder(client)
    client.connect("localhost", port, 20)
    client.loop_start()
    wait_until(lambda: recorder.accepted is not None or bool(recorder.reasons))
    return recorder
