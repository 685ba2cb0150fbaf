"""The chain of hashes: pure, so that anybody can recompute it from an export."""

import hashlib
import json
from collections.abc import Mapping

GENESIS = bytes(32)
"""What the first entry follows."""

_ACTOR, _ACTION, _SUBJECT = 80, 64, 128
MAX_DETAIL_BYTES = 8 * 1024


def canonical(detail: Mapping[str, object]) -> str:
    """A detail as canonical JSON: sorted keys, no spaces, ASCII alone, so that every database keeps it as it is.

    What would be longer than `MAX_DETAIL_BYTES` is replaced by its size and digest: an act is always recorded.

    Raises:
        TypeError: a value that JSON does not know.
        ValueError: a number that is not finite.
    """
    text = json.dumps(detail, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if len(text) <= MAX_DETAIL_BYTES:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({"bytes": len(text), "sha256": digest}, separators=(",", ":"))


def fitting(actor: str, action: str, subject: str) -> tuple[str, str, str]:
    """The three as their columns take them: printable, and cut with an ellipsis where they are longer."""
    return _fit(actor, _ACTOR), _fit(action, _ACTION), _fit(subject, _SUBJECT)


def entry_hash(  # noqa: PLR0917 - the order in which they are hashed
    previous: bytes, at_ms: int, actor: str, action: str, subject: str, detail: str
) -> bytes:
    """SHA-256 of one entry and the hash before it: of a JSON array, so that no two entries have one encoding.

    Args:
        previous: hash of the entry before, `GENESIS` for the first.
        at_ms: milliseconds since 1970.
        actor: who.
        action: what.
        subject: about what.
        detail: canonical JSON.
    """
    fields = [1, previous.hex(), at_ms, actor, action, subject, detail]
    return hashlib.sha256(json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode()).digest()


def _fit(text: str, length: int) -> str:
    # lone surrogates cannot be encoded, PostgreSQL stores no NUL: neither may stop the record of an act
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean if len(clean) <= length else clean[: length - 1] + "…"
