"""Sealed state reports: whoever wrote the message, only what the device's own key signed is taken.

The broker lets a device write its own topic alone; the signature is the second proof, and the one that lasts. A
report may have been sealed with the key before this one: it waits on the device's disk until it is settled, over
renewals.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey
from sqlalchemy import select
from sqlalchemy.engine import Connection

from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.update import REPORT_TYPE, StateReport
from edge_runtime.protocol.wire import WireError
from fleet_server.ingest.parcels import DeadParcel, StateParcel
from fleet_server.storage.device_tables import CertificateRow
from fleet_server.storage.writing import chunks, table

WRONG_SIGNER = "wrong_signer"
"""Code of a report that none of the device's own keys signed."""

WRONG_DEVICE = "wrong_device"
KEPT_MS = 90 * 86_400_000
"""So long after its place was taken a key may still have signed a report that waited: as long as renewals wait."""

_CERTIFICATES = table(CertificateRow)
_MOST_KEYS = 8
_SCHEME = "ecdsa-sha2-nistp256"


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of the reports of one message.

    Attributes:
        reports: signed by the device, about itself; in the order of the message.
        refused: the others.
    """

    reports: tuple[StateReport, ...]
    refused: tuple[DeadParcel, ...]


def device_keys(connection: Connection, devices: Iterable[str], now_ms: int) -> dict[str, list[SSlibKey]]:
    """Public keys with which devices may have signed reports, newest first.

    Keys of active certificates, whether these ran out or not, and of those whose place a newer one took. A revoked
    certificate's key has signed nothing.

    Args:
        connection: of a transaction or a reading one.
        devices: ids.
        now_ms: the server's wall clock.
    """
    columns = _CERTIFICATES.c
    found: dict[str, dict[str, SSlibKey]] = {}
    for some in chunks(sorted(set(devices))):
        query = (
            select(columns.device, columns.pem)
            .where(columns.device.in_(some), columns.pem.is_not(None))
            .where(
                (columns.state == "active")
                | ((columns.state == "superseded") & (columns.changed_ms > now_ms - KEPT_MS))
            )
            .order_by(columns.id.desc())
        )
        for device, pem in connection.execute(query):
            keys = found.setdefault(device, {})
            key = _key(pem)
            if key is not None and len(keys) < _MOST_KEYS:
                keys.setdefault(key.keyid, key)
    return {device: list(keys.values()) for device, keys in found.items()}


def verify(parcel: StateParcel, keys: Sequence[SSlibKey]) -> Verified:
    """Look at each report of a message on its own.

    Args:
        parcel: the message.
        keys: of its device.
    """
    reports: list[StateReport] = []
    refused: list[DeadParcel] = []
    for sealed in parcel.reports:
        found = _verified(parcel.device, sealed, keys)
        if isinstance(found, StateReport):
            reports.append(found)
        else:
            refused.append(found)
    return Verified(tuple(reports), tuple(refused))


def _verified(device: str, sealed: bytes, keys: Sequence[SSlibKey]) -> StateReport | DeadParcel:
    try:
        envelope = read_envelope(sealed, REPORT_TYPE)
        envelope.verify(list(keys), 1)
        report = record_in(envelope, StateReport)
    except WireError as error:
        return _dead(device, error.fault.value, str(error), sealed)
    except (VerificationError, ValueError):  # ValueError: the device has no key at all
        return _dead(device, WRONG_SIGNER, "none of this device's keys signed the report", sealed)
    if report.device != device:
        return _dead(device, WRONG_DEVICE, "the report names another device than its topic", sealed)
    if "\0" in report.text or "\0" in report.boot_id:
        return _dead(device, "invalid", "a text holds a NUL character", sealed)
    return report


def _dead(device: str, code: str, text: str, sealed: bytes) -> DeadParcel:
    return DeadParcel(device, StateParcel.channel, code, text[:200], sealed)


@functools.lru_cache(maxsize=16_384)
def _key(pem: str) -> SSlibKey | None:
    """The key of a certificate, as envelopes name it; None for one that signs nothing here."""
    try:
        public = x509.load_pem_x509_certificate(pem.encode()).public_key()
    except (ValueError, x509.InvalidVersion):
        return None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        return None
    return SSlibKey.from_crypto(public, scheme=_SCHEME)
