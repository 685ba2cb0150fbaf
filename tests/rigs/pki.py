"""A certificate authority for one test: good certificates, and every bad kind that a broker must refuse.

Written apart from the fleet server's own authority, so that a defect there cannot hide in both.
"""

import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edge_runtime.clock import NS_PER_S, SystemClock, WallLabel

_DAY = timedelta(days=1)


def _now() -> datetime:
    return datetime.now(timezone.utc)  # noqa: TID251 - certificates of a test are valid around the real now


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files of one party, as TLS clients and servers take them.

    Attributes:
        name: common name.
        serial: of the certificate, hexadecimal as in the subject's OU.
        authority: the CA that this party trusts (not necessarily the one that signed it).
    """

    name: str
    serial: str
    certificate: Path
    key: Path
    authority: Path

    def client_context(self) -> ssl.SSLContext:
        """A context that shows this certificate and trusts `authority` alone."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context


class Pki:
    """A throwaway authority in a folder.

    Args:
        directory: made when it is missing.
        name: common name of the authority.
    """

    def __init__(self, directory: Path, name: str = "test-authority") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        public = self._key.public_key()
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_now() - _DAY)
            .not_valid_after(_now() + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.authority = directory / "authority.pem"
        self.authority.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        self._issued = 0

    def server(self, name: str = "localhost") -> Credentials:
        """A server's certificate for `name`, localhost and 127.0.0.1."""
        return self._issue(name, server=True, starts=_now() - _DAY, ends=_now() + 10 * _DAY)

    def stale_server(self, name: str = "localhost") -> Credentials:
        """A server certificate that ran out an hour ago: what every certificate is to a clock far ahead."""
        return self._issue(name, server=True, starts=_now() - 3 * _DAY, ends=_now() - _DAY / 24)

    def device(self, name: str) -> Credentials:
        """A new client certificate, CN=<name>, OU=<its serial>."""
        return self._issue(name, server=False, starts=_now() - _DAY, ends=_now() + 10 * _DAY)

    def expired(self, name: str) -> Credentials:
        """A client certificate that ran out an hour ago."""
        return self._issue(name, server=False, starts=_now() - 3 * _DAY, ends=_now() - _DAY / 24)

    def revocation_list(self, *revoked: Credentials) -> Path:
        """Writes a CRL of these and returns its place, always the same."""
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(_now() - timedelta(minutes=1))
            .next_update(_now() + _DAY)
        )
        for party in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(int(party.serial, 16))
                .revocation_date(_now())
                .build()
            )
        path = self.directory / "revoked.crl"
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def _issue(self, name: str, *, server: bool, starts: datetime, ends: datetime) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        number = x509.random_serial_number()
        serial = f"{number:x}"
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, serial),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(number)
            .not_valid_before(starts)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .add_extension(_usage(signs=False), critical=True)
        )
        if server:
            names = [x509.DNSName(name), x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._issued += 1
        stem = self.directory / f"{name}-{self._issued}"
        certificate, secret = stem.with_suffix(".pem"), stem.with_suffix(".key")
        signed = builder.sign(self._key, hashes.SHA256())
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        secret.touch(mode=0o600)
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Credentials(name, serial, certificate, secret, self.authority)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


class MovableClock:
    """The real clock, moved by hand: TLS libraries look at the real one, so tests begin there."""

    def __init__(self) -> None:
        self.offset_s = 0.0
        self._system = SystemClock()

    def monotonic_ns(self) -> int:
        return self._system.monotonic_ns() + int(self.offset_s * NS_PER_S)

    def boottime_ns(self) -> int:
        return self._system.boottime_ns() + int(self.offset_s * NS_PER_S)

    def wall(self) -> WallLabel:
        label = self._system.wall()
        return WallLabel(label.unix_ns + int(self.offset_s * NS_PER_S), label.synced, label.boot_id)

    def pass_s(self, seconds: float) -> None:
        self.offset_s += seconds

    def pass_days(self, days: float) -> None:
        self.offset_s += days * 86_400
