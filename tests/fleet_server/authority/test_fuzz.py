"""Bytes of strangers: whatever comes as a signing request or a certificate is read or refused, and nothing else."""

import base64
import contextlib
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.identity.keys import check_issued, fingerprint, new_key
from edge_runtime.identity.problems import IdentityError
from fleet_server.authority import CertificateAuthority, CertificateRequest, RequestError
from fleet_server.devices import DeviceProblem
from fleet_server.devices.renewal import certificate_in
from tests.rigs.enrolments import Asker
from tests.rigs.pki import MovableClock

Changes = st.lists(
    st.tuples(st.integers(0, 2000), st.sampled_from(["set", "cut", "add", "copy"]), st.binary(max_size=4)),
    min_size=1,
    max_size=4,
)


@lru_cache(maxsize=1)
def authority() -> CertificateAuthority:
    folder = Path(mkdtemp(prefix="fuzz-authority-"))
    made = CertificateAuthority.create(folder / "ca.key", folder / "ca.pem", MovableClock())
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return made


@lru_cache(maxsize=1)
def samples() -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    issued = authority().sign_client("dev-1", key.public_key(), serial="a1", lifetime_s=1000)
    return Asker().csr("dev-1"), issued.pem


def changed(pem: str, changes: list[tuple[int, str, bytes]]) -> str:
    lines = pem.strip().splitlines()
    data = bytearray(base64.b64decode("".join(lines[1:-1])))
    for place, how, what in changes:
        at = place % max(1, len(data))
        if how == "set":
            data[at : at + len(what)] = what
        elif how == "cut":
            del data[at : at + len(what) + 1]
        elif how == "add":
            data[at:at] = what
        else:
            data[at:at] = data[: at + 1]
    return "\n".join([lines[0], base64.encodebytes(bytes(data)).decode(), lines[-1], ""])


@given(Changes)
@settings(max_examples=400)
def test_a_changed_request_is_refused_or_whole(changes: list[tuple[int, str, bytes]]) -> None:
    try:
        CertificateRequest.parse(changed(samples()[0], changes))
    except RequestError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either way is right


@given(Changes)
@settings(max_examples=400)
def test_a_changed_certificate_is_never_ours(changes: list[tuple[int, str, bytes]]) -> None:
    pem = changed(samples()[1], changes)
    try:
        certificate_in(pem, authority())
    except DeviceProblem:
        pass
    else:
        data = "".join(pem.split())
        assert data == "".join(samples()[1].split())
    try:
        check_issued(pem, authority().pem, new_key())
    except IdentityError:
        pass
    else:
        raise AssertionError("a certificate of another key was taken")
    with contextlib.suppress(IdentityError):
        fingerprint(pem)


@given(st.text(max_size=300))
def test_any_text_is_refused(text: str) -> None:
    for read in (CertificateRequest.parse, lambda pem: certificate_in(pem, authority()), fingerprint):
        try:
            read(text)
        except (RequestError, DeviceProblem, IdentityError):
            continue
        raise AssertionError("read")
