"""Signs reports with Ed25519 in an envelope (DSSE), as everything that this project signs, and verifies them."""

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, Key, SSlibKey

from edge_runtime.cli.guard_keys import new_key, read_key
from edge_runtime.durable import write_file
from edge_runtime.protocol.envelope import read_envelope, record_in, seal
from edge_runtime.protocol.update import MAX_ENVELOPE_BYTES
from edge_runtime.protocol.wire import WireError
from hil.problems import BadReport
from hil.report.records import RunReport

REPORT_TYPE = "application/vnd.edge-fleet.hil-report+json"
KEY_FILE = "key.pem"
ENDING = ".report.json"


def own_signer(path: Path) -> CryptoSigner:
    """The key in a file, which is made where there is none.

    Raises:
        ConfigError: the file cannot be made or read, or is no Ed25519 key that its owner alone reads.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new_key(path, None)
    return CryptoSigner(read_key(path, None))


def public_hex(signer: CryptoSigner) -> str:
    """The public half, as `verify` takes it."""
    return str(signer.public_key.keyval["public"])


def public_key(text: str) -> Key:
    """A key of 64 hexadecimal digits.

    Raises:
        BadReport: it is none.
    """
    try:
        return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(bytes.fromhex(text.strip())))
    except ValueError:
        raise BadReport(f"{text[:80]!r} is no public key: it has 64 hexadecimal digits") from None


def write_report(path: Path, report: RunReport, signer: CryptoSigner) -> None:
    """Sign a report, and write it.

    Raises:
        BadReport: it is too long, or the file cannot be written.
    """
    try:
        sealed = seal(report, REPORT_TYPE, signer)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, sealed)
    except WireError as error:
        raise BadReport(f"{path}: the report is not written: {error}") from None
    except OSError as error:
        raise BadReport(f"{path}: the report cannot be written: {error.strerror}") from None


def read_report(path: Path, keys: Sequence[Key] | None = None) -> RunReport:
    """A report whose signature is by one of some keys.

    Args:
        path: of its file.
        keys: None looks at no signature.

    Raises:
        BadReport: it cannot be read, was changed, or nobody of them signed it.
    """
    try:
        with path.open("rb") as file:
            sealed = file.read(MAX_ENVELOPE_BYTES + 1)
    except OSError as error:
        raise BadReport(f"{path}: cannot be read: {error.strerror}") from None
    try:
        envelope = read_envelope(sealed, REPORT_TYPE)
        if keys is not None:
            envelope.verify(list(keys), 1)
        return record_in(envelope, RunReport)
    except WireError as error:
        raise BadReport(f"{path}: {error}") from None
    except (VerificationError, ValueError):
        raise BadReport(
            f"{path}: it was changed, or is signed by somebody else than the keys that were given"
        ) from None


def report_files(place: Path) -> list[Path]:
    """A report, or all reports below a folder, the oldest name first.

    Raises:
        BadReport: there is none.
    """
    if place.is_file():
        return [place]
    found = sorted(place.rglob(f"*{ENDING}"))
    if not found:
        raise BadReport(f"{place}: there is no report")
    return found
