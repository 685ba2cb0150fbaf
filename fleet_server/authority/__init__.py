"""The server's certificate authority: who is a device, who is the server, and who no longer is."""

from fleet_server.authority.authority import CertificateAuthority, IssuedCertificate
from fleet_server.authority.request import CertificateRequest, RequestError
from fleet_server.authority.revocation import RevokedCertificate, revocation_list
from fleet_server.authority.server_certificates import (
    INGEST_NAME,
    CertificateFiles,
    ensure_ingest_certificate,
    ensure_server_certificate,
    subject_of,
)

__all__ = [
    "INGEST_NAME",
    "CertificateAuthority",
    "CertificateFiles",
    "CertificateRequest",
    "IssuedCertificate",
    "RequestError",
    "RevokedCertificate",
    "ensure_ingest_certificate",
    "ensure_server_certificate",
    "revocation_list",
    "subject_of",
]
