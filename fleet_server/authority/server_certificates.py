"""The server's own certificates: made at `fleet init`, and anew before they end or when a host name is added."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from edge_runtime.errors import EdgeRuntimeError
from fleet_server.authority.authority import (
    CertificateAuthority,
    IssuedCertificate,
    new_serial,
    private_pem,
)
from fleet_server.authority.files import read_pem, write_whole

LIFETIME_S = 365 * 86_400
_RENEWED_WHEN_LEFT = timedelta(seconds=LIFETIME_S // 3)

INGEST_NAME = "fleet-ingest"
"""Common name of the certificate with which the server meets the broker. No device can have it."""

Signer = Callable[[ec.EllipticCurvePublicKey], IssuedCertificate]


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a key (0600) and its certificate lie."""

    key: Path
    certificate: Path


def ensure_server_certificate(
    authority: CertificateAuthority, files: CertificateFiles, hosts: Sequence[str]
) -> bool:
    """Have a certificate for these hosts that lasts.

    Returns:
        Whether it was made now: there was none, it ends within four months, misses a host, or is another
        authority's. Whoever serves with it must load it anew.

    Raises:
        EdgeRuntimeError: a file cannot be written, or a host is neither a name nor an address.
    """
    found = _lasting(authority, files)
    if found is not None and {_canonical(host) for host in hosts} <= _hosts(found):
        return False
    _issue(files, lambda key: authority.sign_server(hosts, key, lifetime_s=LIFETIME_S))
    return True


def ensure_ingest_certificate(authority: CertificateAuthority, files: CertificateFiles) -> bool:
    """Have a certificate with which the server meets the broker; whether it was made now.

    Raises:
        EdgeRuntimeError: a file cannot be written.
    """
    found = _lasting(authority, files)
    if found is not None and _text(found, NameOID.COMMON_NAME) == INGEST_NAME:
        return False
    _issue(
        files,
        lambda key: authority.sign_client(INGEST_NAME, key, serial=new_serial(), lifetime_s=LIFETIME_S),
    )
    return True


def subject_of(certificate_file: Path) -> tuple[str, str]:
    """Common name and serial number (hexadecimal) of a certificate of this authority.

    Raises:
        EdgeRuntimeError: the file cannot be read or holds no such certificate.
    """
    try:
        found = x509.load_pem_x509_certificate(read_pem(certificate_file))
    except ValueError:
        raise EdgeRuntimeError(f"{certificate_file} holds no certificate") from None
    return _text(found, NameOID.COMMON_NAME), f"{found.serial_number:x}"


def _issue(files: CertificateFiles, sign: Signer) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = sign(key.public_key())
    for path in (files.key, files.certificate):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Killed between the two, the key belongs to another certificate: `_lasting` sees that and issues again.
    write_whole(files.key, private_pem(key), 0o600)
    write_whole(files.certificate, certificate.pem.encode(), 0o644)


def _lasting(authority: CertificateAuthority, files: CertificateFiles) -> x509.Certificate | None:
    """The certificate in these files if it can go on being used."""
    if not files.key.exists() or not files.certificate.exists():
        return None
    try:
        key = load_pem_private_key(read_pem(files.key), None)
        found = x509.load_pem_x509_certificate(read_pem(files.certificate))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None  # damaged: made anew, nothing depends on the old key
    if key.public_key() != found.public_key() or not authority.has_signed(found):
        return None
    return found if found.not_valid_after_utc - authority.now() > _RENEWED_WHEN_LEFT else None


def _hosts(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    }


def _canonical(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _text(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> str:
    found = certificate.subject.get_attributes_for_oid(oid)
    return str(found[0].value) if found else ""
