"""Keys and certificates of the device. The private key is made here, written with mode 0600, and sent nowhere."""

import base64
import hashlib
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from edge_runtime.identity.problems import IdentityError, WrongServer
from edge_runtime.protocol.enrolment import renewal_message

PrivateKey = ec.EllipticCurvePrivateKey


def new_key() -> PrivateKey:
    """A new ECDSA key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """The private key as it lies on the disk: PKCS 8, for a file with mode 0600."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_key(pem: bytes) -> PrivateKey:
    """The private key in a PEM.

    Raises:
        IdentityError: it is damaged or of another kind.
    """
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IdentityError("the device's key is damaged: enrol again with a new token") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise IdentityError("the device's key is not an ECDSA key on P-256: enrol again with a new token")
    return key


def signing_request(key: PrivateKey, common_name: str | None = None) -> str:
    """A certificate signing request in PEM, signed by `key`."""
    names = [] if common_name is None else [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    request = (
        x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    )
    return request.public_bytes(Encoding.PEM).decode()


def signature(key: PrivateKey, nonce: str, csr: str) -> str:
    """The signature under a renewal, base64."""
    return base64.b64encode(key.sign(renewal_message(nonce, csr), ec.ECDSA(hashes.SHA256()))).decode()


def fingerprint(pem: str) -> str:
    """SHA-256 of the one certificate (DER) in a PEM, hexadecimal.

    Raises:
        WrongServer: it holds no certificate, or more than one: only one of them could be pinned.
    """
    try:
        found = x509.load_pem_x509_certificates(pem.encode())
    except (ValueError, x509.InvalidVersion):
        found = []
    if len(found) != 1:
        raise WrongServer("the server answered with something else than the one certificate of its authority")
    return hashlib.sha256(found[0].public_bytes(Encoding.DER)).hexdigest()


@dataclass(frozen=True, slots=True)
class Issued:
    """What a certificate says.

    Attributes:
        serial: hexadecimal.
        not_before_ms, not_after_ms: milliseconds since 1970.
    """

    device: str
    serial: str
    not_before_ms: int
    not_after_ms: int


def check_issued(certificate: str, authority: str, key: PrivateKey) -> Issued:
    """What a certificate says, once it is known to be of this key and this authority.

    Raises:
        IdentityError: it is of another key or authority, or no certificate.
    """
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        is_of_key = found.public_key() == key.public_key()
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion):
        raise IdentityError("the server sent a certificate that its authority did not sign") from None
    if not is_of_key or len(names) != 1:
        raise IdentityError("the server sent a certificate of another key")
    return Issued(
        str(names[0].value),
        f"{found.serial_number:x}",
        round(found.not_valid_before_utc.timestamp() * 1000),
        round(found.not_valid_after_utc.timestamp() * 1000),
    )


def trusting(authority: str) -> ssl.SSLContext:
    """A client's TLS context, 1.2 or newer, that trusts this authority and no other, the system's included.

    Raises:
        IdentityError: the PEM holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise IdentityError("the authority's certificate is damaged: enrol again with a new token") from None
    return context


def trusting_nobody() -> ssl.SSLContext:
    """A TLS context for fetching the authority's certificate, which is compared with the token's pin before use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
