"""Approvals of risky actions: what is signed, what a verified one allows, and for how long.

An approver signs a text that names the device, the digest of one action with its exact values, and an expiry. The
signature is verified by a process of its own, `verifier.py`; this module has no cryptography but SHA-256, and no
files. What passed the verification waits here for its action, once, until it expires or the gate closes.
"""

import base64
import binascii
import hashlib
import struct
from collections.abc import Mapping
from typing import NamedTuple

from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.strict_json import strict_json

MOST_WAITING = 16
"""Verified approvals that wait; one more is refused."""

LARGEST_TEXT = 600
"""Bytes of the signed text; with the signature it fits one datagram of 1 KiB."""

CLOCK_SKEW_MS = 300_000
"""An approver's clock may be this far ahead."""

SIGNED_PREFIX = b"edge-runtime approval v1\n"
"""What is signed is this and the text, so that no other signed text of ours can pass for an approval."""

_LARGEST_MS = (1 << 53) - 1  # exact in every language's JSON
_RECORD_KEYS = frozenset({"text", "key", "signature"})
_TEXT_KEYS = frozenset({"approval", "device", "action", "digest", "issued_ms", "expires_ms"})


class NotAnApproval(ValueError):
    """The bytes or values do not make an approval."""


class Record(NamedTuple):
    """An approval as it travels: `text` is base64 of JSON, `signature` base64 of 64 bytes.

    Attributes:
        text: exactly the bytes that were signed, without the prefix.
        key: name of the approver's key, 1 to 64 characters.
        signature: Ed25519, 64 bytes.
    """

    text: bytes
    key: str
    signature: bytes


class Statement(NamedTuple):
    """What the signed text says.

    Attributes:
        approval: its id: 16 to 64 characters of a-z, 0-9 and `-`; presented once.
        device: that may act.
        action: its name.
        digest: of the action, see `action_digest`.
        issued_ms: when it was signed, milliseconds since 1970 by the approver's clock.
        expires_ms: until when it is good.
    """

    approval: str
    device: str
    action: str
    digest: str
    issued_ms: int
    expires_ms: int


def action_digest(device: str, action: str, values: Mapping[str, float]) -> str:
    """SHA-256 in hex that binds an approval to one device, one action and its exact values.

    Values are taken as the eight big-endian bytes of their double, in the order of the axes' names, so that every
    language computes the same. -0.0 counts as 0.0.
    """
    lines = ["edge-runtime action v1", device, action]
    lines += [f"{axis}={struct.pack('>d', values[axis] + 0.0).hex()}" for axis in sorted(values)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def parse_record(value: object) -> Record:
    """An approval from what JSON gave.

    Raises:
        NotAnApproval: wrong keys, kinds or sizes.
    """
    if not isinstance(value, dict) or value.keys() != _RECORD_KEYS:
        raise NotAnApproval("an approval has the keys text, key and signature")
    key = value["key"]
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise NotAnApproval("key: 1 to 64 characters")
    text, signature = _decoded(value["text"]), _decoded(value["signature"])
    if not 0 < len(text) <= LARGEST_TEXT or len(signature) != 64:
        raise NotAnApproval(f"text: 1 to {LARGEST_TEXT} bytes; signature: 64 bytes")
    return Record(text, key, signature)


def parse_statement(text: bytes) -> Statement:
    """What a signed text says.

    Raises:
        NotAnApproval: not JSON, wrong keys, kinds or sizes.
    """
    try:
        value = strict_json(text)
    except ValueError:
        raise NotAnApproval("the signed text is not JSON") from None
    if not isinstance(value, dict) or value.keys() != _TEXT_KEYS:
        raise NotAnApproval(f"the signed text has the keys {', '.join(sorted(_TEXT_KEYS))}")
    if not all(isinstance(value[key], str) for key in ("approval", "device", "action", "digest")):
        raise NotAnApproval("approval, device, action and digest are texts")
    if not all(_is_time(value[key]) for key in ("issued_ms", "expires_ms")):
        raise NotAnApproval("issued_ms and expires_ms are whole milliseconds since 1970")
    statement = Statement(**value)
    # It becomes the name of a file.
    if not 16 <= len(statement.approval) <= 64 or not _is_plain(statement.approval):
        raise NotAnApproval("approval: 16 to 64 characters of a-z, 0-9 and -")
    return statement


def refusal(
    statement: Statement, *, device: str, risky: frozenset[str], longest_ms: int, now_ms: int
) -> Reason | None:
    """Why an approval with a good signature is of no use here and now; None if it is.

    Args:
        statement: what was signed.
        device: this device's id.
        risky: actions that can be approved.
        longest_ms: from its issue to its expiry.
        now_ms: the device's wall clock. It decides only whether now lies within the time that was signed; a clock
            that is off makes approvals useless, and each still works once.
    """
    if statement.device != device:
        return Reason.APPROVAL_DEVICE
    if statement.action not in risky:
        return Reason.APPROVAL_ACTION
    if not 0 < statement.expires_ms - statement.issued_ms <= longest_ms:
        return Reason.APPROVAL_EXPIRED
    if not statement.issued_ms - CLOCK_SKEW_MS <= now_ms < statement.expires_ms:
        return Reason.APPROVAL_EXPIRED
    return None


class Approvals:
    """Verified approvals that wait for their action; each allows one."""

    def __init__(self) -> None:
        self._until: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, digest: str, until_ns: int, now_ns: int) -> Reason | None:
        """Take a verified approval.

        Args:
            digest: of the action.
            until_ns: when it expires, on CLOCK_MONOTONIC.
            now_ns: those that expired make room.

        Returns:
            Why not; None if it was taken. A second one for the same action replaces the first.
        """
        self._until = {known: until for known, until in self._until.items() if now_ns < until}
        if digest not in self._until and len(self._until) >= MOST_WAITING:
            return Reason.APPROVAL_BUSY
        self._until[digest] = until_ns
        return None

    def holds(self, digest: str, now_ns: int) -> bool:
        """Whether this action may be done now."""
        return now_ns < self._until.get(digest, 0)

    def spend(self, digest: str) -> None:
        """It was used."""
        self._until.pop(digest, None)

    def clear(self) -> None:
        """The gate closed: what was approved before that is void."""
        self._until.clear()


def _decoded(value: object) -> bytes:
    if not isinstance(value, str):
        raise NotAnApproval("text and signature are base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise NotAnApproval("text and signature are base64") from None


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_MS


def _is_plain(text: str) -> bool:
    return all(letter in "abcdefghijklmnopqrstuvwxyz0123456789-" for letter in text)
