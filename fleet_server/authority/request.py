"""Certificate signing requests from devices: bytes of strangers, reduced to a key that its sender really has."""

import hashlib
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

MAX_CSR_BYTES = 16_384


class RequestError(ValueError):
    """No signing request that can be used. The text never repeats it."""


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """What counts of a signing request. Its extensions and most of its subject are ignored.

    Attributes:
        key: P-256, and the sender proved to have its private half.
        common_name: the name that the sender wishes, or None.
    """

    key: ec.EllipticCurvePublicKey
    common_name: str | None

    @property
    def key_sha256(self) -> str:
        """SHA-256 of the public key (SubjectPublicKeyInfo, DER), hexadecimal."""
        return key_digest(self.key)

    @classmethod
    def parse(cls, pem: str) -> "CertificateRequest":
        """Read a request and check its own signature.

        Raises:
            RequestError: no PEM of a request, another kind of key, or a signature that does not fit.
        """
        if len(pem) > MAX_CSR_BYTES:
            raise RequestError(f"the signing request is longer than {MAX_CSR_BYTES} characters")
        try:
            found = x509.load_pem_x509_csr(pem.encode())
            key = found.public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
                raise RequestError("the signing request must hold an ECDSA key on the curve P-256")
            fits = found.is_signature_valid
            names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        # PyCA raises all of these for malformed DER, unknown algorithms and odd names
        except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.InvalidVersion) as error:
            if isinstance(error, RequestError):
                raise
            raise RequestError("this is no certificate signing request in PEM") from None
        if not fits:
            raise RequestError("the signing request is not signed by its own key")
        return cls(key, str(names[0].value) if len(names) == 1 else None)


def key_digest(key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key (SubjectPublicKeyInfo, DER), hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
