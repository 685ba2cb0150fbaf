"""The revocation list: what an external broker is told of certificates that are out before their end."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from fleet_server.authority.authority import CertificateAuthority

VALID_DAYS = 30
"""A broker refuses everybody once its list is older than this. The running server writes a new one every day."""


@dataclass(frozen=True, slots=True)
class RevokedCertificate:
    """One entry.

    Attributes:
        serial: hexadecimal.
        revoked_ms: when, milliseconds since 1970.
        superseded: another certificate took its place; otherwise it was withdrawn.
    """

    serial: str
    revoked_ms: int
    superseded: bool = False


def revocation_list(authority: CertificateAuthority, revoked: Iterable[RevokedCertificate]) -> bytes:
    """A signed CRL of these in PEM, valid for `VALID_DAYS` from now."""
    now = authority.now()
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now - timedelta(minutes=5))
        .next_update(now + timedelta(days=VALID_DAYS))
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
        .add_extension(x509.CRLNumber(int(now.timestamp())), critical=False)
    )
    for entry in revoked:
        reason = x509.ReasonFlags.superseded if entry.superseded else x509.ReasonFlags.privilege_withdrawn
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(int(entry.serial, 16))
            .revocation_date(datetime.fromtimestamp(entry.revoked_ms // 1000, tz=timezone.utc))
            .add_extension(x509.CRLReason(reason), critical=False)
            .build()
        )
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM)
