"""State reports for tests: made, sealed with a device's own key, and put into messages."""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.signer import CryptoSigner

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.update import REPORT_TYPE, StateReport
from edge_runtime.protocol.update_wire import StateReports

AT_MS = 1_790_000_000_000


def state_report(device: str = "dev-1", number: int = 1, **changes: Any) -> StateReport:
    """A report of progress, or what the changes make of it."""
    values: dict[str, Any] = {
        "device": device,
        "boot_id": "boot-1",
        "report_no": number,
        "seq": 1,
        "slot": "m",
        "state": "downloading",
        "running": {},
        "facts": {"architecture": "x86_64", "runtime": "0.3.0"},
        "at_ms": AT_MS,
        "clock_synced": True,
    }
    return StateReport.model_validate(values | changes)


def terminal_report(device: str = "dev-1", number: int = 2, **changes: Any) -> StateReport:
    """The last report of an assignment."""
    return state_report(device, number, state="healthy", terminal=True, left="updated", **changes)


def key_in(path: Path) -> EllipticCurvePrivateKey:
    """The private key in a PEM file."""
    key = load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key


def sealed(report: StateReport, key: EllipticCurvePrivateKey) -> bytes:
    """A report in its envelope."""
    return seal(report, REPORT_TYPE, CryptoSigner(key))


def message(device: str, *reports: bytes) -> tuple[str, bytes]:
    """Topic and payload of a message with these envelopes."""
    return str(Topic(device, Channel.STATE)), StateReports(device=device, reports=reports).encode()
