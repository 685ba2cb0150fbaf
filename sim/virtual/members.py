"""Members of a fleet, many at once: keys made here, certificates signed by the fleet's own enrolment service.

As a production line does it: one token with a list of serial numbers. The service is called in this process, on the
server's database; over HTTPS a thousand devices behind one address would wait for its limits.
"""

import hashlib
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.identity import keys
from edge_runtime.protocol.enrolment import EnrolmentRequest, EnrolmentState, EnrolmentToken
from fleet_server.serve.composition import open_application
from sim.process import RoadError


@dataclass(frozen=True, slots=True)
class Member:
    """One enrolled device.

    Attributes:
        key: its own; it signs reports.
        key_sha256: of the public key (SPKI, DER).
        tls: for the broker and for the fleet server.
        root: the fleet's root of releases, as enrolment handed it out; None where the fleet has none.
        born_ms: the beginning of its certificate.
    """

    device: str
    key: keys.PrivateKey
    key_sha256: str
    tls: ssl.SSLContext
    root: str | None
    born_ms: int


def enrol_many(data: Path, names: Sequence[str], labels: Mapping[str, str] | None = None) -> list[Member]:
    """Enrol devices at the server of a data directory, which may be running.

    Args:
        data: of the server.
        names: ids that they wish for.
        labels: that all of them get.

    Raises:
        RoadError: the server did not let one in.
    """
    application = open_application(data, {})
    try:
        services = application.services
        serials = [f"virtual-{name}" for name in names]
        token = services.registry.invite("sim", serials=serials, labels=dict(labels or {})).token
        read = EnrolmentToken.parse(str(token))
        members = []
        for name, serial in zip(names, serials, strict=True):
            key = keys.new_key()
            answer = services.enrolment.enrol(
                EnrolmentRequest(
                    token_id=read.id,
                    secret=read.secret,
                    csr=keys.signing_request(key, name),
                    serial=serial,
                    device=name,
                )
            )
            if answer.state is not EnrolmentState.ACTIVE or answer.certificate is None:
                raise RoadError(f"{name} was not let in")
            context = _context(answer.certificate, answer.authority, key)
            found = _digest(key)
            members.append(
                Member(answer.device, key, found, context, answer.release_root, _now_ms() - 60_000)
            )
        return members
    finally:
        application.close()


def _context(certificate: str, authority: str, key: keys.PrivateKey) -> ssl.SSLContext:
    context = keys.trusting(authority)
    with tempfile.NamedTemporaryFile(
        prefix="virtual-", suffix=".pem"
    ) as file:  # ssl reads keys from files only
        file.write(certificate.encode() + keys.key_pem(key))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _digest(key: keys.PrivateKey) -> str:
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).hexdigest()


def _now_ms() -> int:
    return SystemClock().wall().unix_ns // NS_PER_MS
