"""The authority: what it signs passes OpenSSL's strict checks, and nothing else does; keys are private."""

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.authority import (
    CertificateAuthority,
    CertificateFiles,
    CertificateRequest,
    RequestError,
    RevokedCertificate,
    ensure_ingest_certificate,
    ensure_server_certificate,
    revocation_list,
    subject_of,
)
from tests.rigs.pki import MovableClock


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def authority(tmp_path: Path, clock: MovableClock) -> CertificateAuthority:
    return CertificateAuthority.create(tmp_path / "authority/ca.key", tmp_path / "authority/ca.pem", clock)


def csr(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, name: str = "dev-1") -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    algorithm = hashes.SHA256() if isinstance(key, ec.EllipticCurvePrivateKey) else None
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, algorithm)
    return signed.public_bytes(Encoding.PEM).decode()


def verify(tmp_path: Path, certificate: Path, *more: str) -> subprocess.CompletedProcess[str]:
    ca = tmp_path / "authority/ca.pem"
    return subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CAfile", str(ca), *more, str(certificate)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_files_are_private_and_an_authority_is_never_replaced(
    tmp_path: Path, authority: CertificateAuthority, clock: MovableClock
) -> None:
    key = tmp_path / "authority/ca.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ConfigError, match="would put out every enrolled device"):
        CertificateAuthority.create(key, tmp_path / "authority/ca.pem", clock)
    again = CertificateAuthority.load(key, tmp_path / "authority/ca.pem", clock)
    assert again.fingerprint == authority.fingerprint
    assert again.derived_secret("x") == authority.derived_secret("x") != authority.derived_secret("y")


def test_what_it_signs_passes_strict_verification(tmp_path: Path, authority: CertificateAuthority) -> None:
    server = CertificateFiles(tmp_path / "tls/server.key", tmp_path / "tls/server.pem")
    ingest = CertificateFiles(tmp_path / "tls/ingest.key", tmp_path / "tls/ingest.pem")
    assert ensure_server_certificate(authority, server, ["fleet.example", "::1", "127.0.0.1"])
    assert ensure_ingest_certificate(authority, ingest)
    assert server.key.stat().st_mode & 0o777 == 0o600
    assert verify(tmp_path, server.certificate, "-purpose", "sslserver").returncode == 0
    assert verify(tmp_path, server.certificate, "-verify_hostname", "fleet.example").returncode == 0
    assert verify(tmp_path, server.certificate, "-verify_hostname", "other.example").returncode != 0
    assert verify(tmp_path, ingest.certificate, "-purpose", "sslclient").returncode == 0
    assert verify(tmp_path, ingest.certificate, "-purpose", "sslserver").returncode != 0
    name, serial = subject_of(ingest.certificate)
    assert name == "fleet-ingest"
    found = x509.load_pem_x509_certificate(ingest.certificate.read_bytes())
    assert found.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)[0].value == serial


def test_the_server_certificate_is_made_anew_only_when_it_must(
    tmp_path: Path, authority: CertificateAuthority, clock: MovableClock
) -> None:
    files = CertificateFiles(tmp_path / "tls/server.key", tmp_path / "tls/server.pem")
    assert ensure_server_certificate(authority, files, ["a.example"])
    assert not ensure_server_certificate(authority, files, ["a.example"])
    assert ensure_server_certificate(authority, files, ["a.example", "b.example"])
    clock.pass_days(200)
    assert not ensure_server_certificate(authority, files, ["b.example"])
    clock.pass_days(60)
    assert ensure_server_certificate(authority, files, ["b.example"])
    # what a kill between the two writes leaves: a key and the certificate of another
    files.key.write_bytes((tmp_path / "authority/ca.key").read_bytes())
    assert ensure_server_certificate(authority, files, ["b.example"])
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(files.certificate, files.key)
    files.certificate.write_text("torn")
    assert ensure_server_certificate(authority, files, ["b.example"])


def test_a_request_counts_only_with_a_p256_key_that_signed_it() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    good = CertificateRequest.parse(csr(key))
    assert good.common_name == "dev-1"
    assert good.key == key.public_key()
    for bad, why in [
        ("", "no certificate signing request"),
        ("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----", "no certificate"),
        ("x" * 20_000, "longer than"),
        (csr(ec.generate_private_key(ec.SECP384R1())), "P-256"),
        (csr(ed25519.Ed25519PrivateKey.generate()), "P-256"),
        ("ü" * 100, "no certificate signing request"),
    ]:
        with pytest.raises(RequestError, match=why):
            CertificateRequest.parse(bad)


def test_a_request_signed_by_another_key_is_refused() -> None:
    """Whoever asks for a certificate of somebody else's public key cannot prove to have the private one."""
    mine, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    der = x509.load_pem_x509_csr(csr(mine).encode()).public_bytes(Encoding.DER)
    point = [key.public_key().public_numbers().x.to_bytes(32, "big") for key in (mine, theirs)]
    whole = [key.public_key().public_numbers().y.to_bytes(32, "big") for key in (mine, theirs)]
    forged = der.replace(point[0] + whole[0], point[1] + whole[1])
    assert forged != der
    pem = ssl.DER_cert_to_PEM_cert(forged).replace("CERTIFICATE", "CERTIFICATE REQUEST")
    with pytest.raises(RequestError, match="not signed by its own key"):
        CertificateRequest.parse(pem)


def test_the_revocation_list_is_obeyed(tmp_path: Path, authority: CertificateAuthority) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    kept = authority.sign_client("dev-1", key, serial="a1", lifetime_s=1000)
    out = authority.sign_client("dev-2", key, serial="b2", lifetime_s=1000)
    lists = tmp_path / "revoked.crl"
    lists.write_bytes(revocation_list(authority, [RevokedCertificate("b2", 1_700_000_000_000)]))
    for issued, is_good in ((kept, True), (out, False)):
        path = tmp_path / f"{issued.serial}.pem"
        path.write_text(issued.pem)
        found = verify(tmp_path, path, "-crl_check", "-CRLfile", str(lists))
        assert (found.returncode == 0) is is_good, found.stderr
    assert "certificate revoked" in found.stderr


def test_another_authority_is_told_apart(
    tmp_path: Path, authority: CertificateAuthority, clock: MovableClock
) -> None:
    rogue = CertificateAuthority.create(tmp_path / "rogue.key", tmp_path / "rogue.pem", clock)
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    ours = authority.sign_client("dev-1", key, serial="a1", lifetime_s=1000)
    theirs = rogue.sign_client("dev-1", key, serial="a1", lifetime_s=1000)
    assert authority.has_signed(x509.load_pem_x509_certificate(ours.pem.encode()))
    assert not authority.has_signed(x509.load_pem_x509_certificate(theirs.pem.encode()))
    with pytest.raises(EdgeRuntimeError, match="is not the key of"):
        CertificateAuthority.load(tmp_path / "rogue.key", tmp_path / "authority/ca.pem", clock)
    with pytest.raises(EdgeRuntimeError, match="cannot be read"):
        CertificateAuthority.load(tmp_path / "none.key", tmp_path / "rogue.pem", clock)
    (tmp_path / "rogue.key").write_text("torn")
    with pytest.raises(EdgeRuntimeError, match="damaged"):
        CertificateAuthority.load(tmp_path / "rogue.key", tmp_path / "rogue.pem", clock)


def test_no_certificate_outlives_the_authority(authority: CertificateAuthority) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    issued = authority.sign_client("dev-1", key, serial="a1", lifetime_s=100 * 365 * 86_400)
    assert issued.not_after_ms == int(authority.certificate.not_valid_after_utc.timestamp()) * 1000
