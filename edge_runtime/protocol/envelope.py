"""Signed envelopes (DSSE): a record, its type, and signatures over both. Who may sign is the reader's to say."""

import json
from typing import TypeVar

from pydantic import ValidationError
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError
from securesystemslib.signer import Signer

from edge_runtime.protocol.release import SignedRecord, canonical
from edge_runtime.protocol.update import MAX_ENVELOPE_BYTES
from edge_runtime.protocol.wire import WireError, WireFault, places

RecordT = TypeVar("RecordT", bound=SignedRecord)


def seal(record: SignedRecord, payload_type: str, signer: Signer) -> bytes:
    """A record in an envelope with one signature, as JSON.

    Raises:
        WireError: it is longer than an envelope may be.
    """
    envelope = Envelope(record.canonical_bytes(), payload_type, {})
    envelope.sign(signer)
    sealed = canonical(envelope.to_dict())
    if len(sealed) > MAX_ENVELOPE_BYTES:
        raise WireError(
            WireFault.TOO_LARGE, f"{len(sealed)} bytes; an envelope has at most {MAX_ENVELOPE_BYTES}"
        )
    return sealed


def read_envelope(sealed: bytes, payload_type: str) -> Envelope:
    """The envelope in bytes from outside; nothing of it is verified but its form and its type.

    Raises:
        WireError: too large, no envelope, or one of another type.
    """
    if len(sealed) > MAX_ENVELOPE_BYTES:
        raise WireError(
            WireFault.TOO_LARGE, f"{len(sealed)} bytes; an envelope has at most {MAX_ENVELOPE_BYTES}"
        )
    try:
        envelope = Envelope.from_dict(json.loads(sealed))
    # what a library makes of JSON that is something else altogether
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, FormatError) as error:
        raise WireError(WireFault.MALFORMED, f"no signed envelope: {type(error).__name__}") from None
    if envelope.payload_type != payload_type:
        raise WireError(WireFault.INVALID, f"an envelope of another type than {payload_type}")
    return envelope


def record_in(envelope: Envelope, kind: type[RecordT]) -> RecordT:
    """The record that an envelope carries, to be called once its signature is verified.

    Raises:
        WireError: its payload is not that record.
    """
    try:
        return kind.model_validate_json(envelope.payload)
    except ValidationError as error:
        raise WireError(WireFault.INVALID, f"not a {kind.__name__}: {places(error)}") from None
