"""The certificate authority: one ECDSA P-256 key on the server's disk, and everything that it signs."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.authority.files import read_pem, write_whole

AUTHORITY_DAYS = 20 * 365
BACKDATED_S = 86_400
"""Certificates begin a day early: a device whose clock is behind by less than that can use them at once."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A signed certificate.

    Attributes:
        serial: hexadecimal, lower case, without leading zeros; also the OU of the subject.
        not_after_ms: when it ends, milliseconds since 1970.
    """

    serial: str
    pem: str
    not_after_ms: int


def new_serial() -> str:
    """A random serial number of 159 bits, hexadecimal, as certificates of this authority write it."""
    return f"{x509.random_serial_number():x}"


class CertificateAuthority:
    """Signs certificates. Made by `create` or `load`.

    Args:
        key: private key of the authority.
        certificate: its own certificate.
        clock: its wall clock says when certificates begin.
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, clock: Clock) -> None:
        self._key = key
        self.certificate = certificate
        self._clock = clock
        self._identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())

    @classmethod
    def create(cls, key_file: Path, certificate_file: Path, clock: Clock) -> "CertificateAuthority":
        """Make a new authority and write its files; the key is readable by its owner alone.

        Raises:
            ConfigError: one of the files exists, for whoever replaces an authority puts out every device; or the
                folder cannot be written.
        """
        for path in (key_file, certificate_file):
            if path.exists():
                raise ConfigError(f"{path} exists: a new authority would put out every enrolled device")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fleet authority {secrets.token_hex(4)}")])
        now = _now(clock)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(seconds=BACKDATED_S))
            .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_whole(key_file, private_pem(key), 0o600)
        write_whole(certificate_file, certificate.public_bytes(Encoding.PEM), 0o644)
        return cls(key, certificate, clock)

    @classmethod
    def load(cls, key_file: Path, certificate_file: Path, clock: Clock) -> "CertificateAuthority":
        """The authority in these files.

        Raises:
            EdgeRuntimeError: a file is missing or damaged, or the key belongs to another certificate.
        """
        try:
            key = load_pem_private_key(read_pem(key_file), None)
            certificate = x509.load_pem_x509_certificate(read_pem(certificate_file))
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise EdgeRuntimeError(
                f"{key_file} or {certificate_file} is damaged: restore it from a backup"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise EdgeRuntimeError(f"{key_file} is not the key of {certificate_file}")
        return cls(key, certificate, clock)

    @property
    def pem(self) -> str:
        """The authority's certificate: what devices trust."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of that certificate (DER), hexadecimal: the pin in an enrolment token."""
        return hashlib.sha256(self.certificate.public_bytes(Encoding.DER)).hexdigest()

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """For signing revocation lists."""
        return self._key

    def sign_client(
        self, name: str, key: ec.EllipticCurvePublicKey, *, serial: str, lifetime_s: int
    ) -> IssuedCertificate:
        """A client certificate with the subject CN=<name>, OU=<serial>: a device's, or the server's for the broker.

        It has no alternative names: a broker that maps certificates to users looks at those first.
        """
        return self._sign(
            name, key, serial=serial, lifetime_s=lifetime_s, purpose=ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def sign_server(
        self, hosts: Sequence[str], key: ec.EllipticCurvePublicKey, *, lifetime_s: int
    ) -> IssuedCertificate:
        """A server certificate for these host names and addresses; the first is its common name.

        Raises:
            ConfigError: a host is neither a name nor an address.
        """
        names = [_general_name(host) for host in hosts]
        return self._sign(
            hosts[0][:64],
            key,
            serial=new_serial(),
            lifetime_s=lifetime_s,
            purpose=ExtendedKeyUsageOID.SERVER_AUTH,
            alternatives=names,
        )

    def has_signed(self, certificate: x509.Certificate) -> bool:
        """Whether this authority signed it; says nothing of its dates or revocation."""
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return False
        return True

    def derived_secret(self, purpose: str) -> bytes:
        """32 bytes that only this authority can compute, the same in all its processes and after a restart."""
        secret = self._key.private_numbers().private_value.to_bytes(32, "big")
        return HKDF(hashes.SHA256(), 32, salt=None, info=b"edge-fleet " + purpose.encode()).derive(secret)

    def now(self) -> datetime:
        """The wall clock, to the second."""
        return _now(self._clock)

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        *,
        serial: str,
        lifetime_s: int,
        purpose: x509.ObjectIdentifier,
        alternatives: Sequence[x509.GeneralName] = (),
    ) -> IssuedCertificate:
        now = self.now()
        ends = min(now + timedelta(seconds=lifetime_s), self.certificate.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(
                x509.Name(
                    [
                        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, serial),
                        x509.NameAttribute(NameOID.COMMON_NAME, name),
                    ]
                )
            )
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(int(serial, 16))
            .not_valid_before(now - timedelta(seconds=BACKDATED_S))
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(self._identifier, critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
        return IssuedCertificate(serial, pem, int(ends.timestamp()) * 1000)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as it lies on the disk: PKCS 8, not encrypted, for a file with mode 0600."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ConfigError(f"{host[:80]!r} is neither a host name nor an address") from None


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.wall().unix_ns // NS_PER_S, tz=timezone.utc)


def now_ms(clock: Clock) -> int:
    """The wall clock in milliseconds since 1970."""
    return clock.wall().unix_ns // NS_PER_MS


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
