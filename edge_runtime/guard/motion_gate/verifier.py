"""Verifies one approval and ends: `python -m edge_runtime.guard.motion_gate.verifier`.

A process of its own, so that neither `cryptography` nor a disk stands in the loop of the motion gate. One JSON
object comes on standard input, one goes to standard output. Anything else, and no answer in time, is a no.

An approval is noted as used, on the disk, before the answer is yes: shown again, also after a crash or a power cut,
it is refused.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.durable import sync_directory
from edge_runtime.guard.motion_gate.approvals import (
    SIGNED_PREFIX,
    NotAnApproval,
    Record,
    Statement,
    parse_record,
    parse_statement,
    refusal,
)
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.strict_json import strict_json
from edge_runtime.lifeline import die_with_parent

LARGEST_QUESTION = 1 << 16
MOST_NOTED = 1024
"""Used approvals that are remembered; those over for long are forgotten."""


class Question(NamedTuple):
    """What the gate asks.

    Attributes:
        record: the approval, as JSON gave it.
        device: this device's id.
        risky: actions that can be approved.
        longest_ms: from an approval's issue to its expiry.
        keys: public keys of the approvers, 32 bytes in hex, by name.
        used: folder that notes the used ones.
    """

    record: object
    device: str
    risky: list[str]
    longest_ms: int
    keys: dict[str, str]
    used: str


def answer(question: Question, now_ms: int) -> dict[str, str | int]:
    """The answer to one question.

    Args:
        question: what the gate asks.
        now_ms: the device's wall clock.

    Returns:
        `refused` and the reason, or `digest` and `remaining_ms`.

    Raises:
        OSError: the folder of used ones cannot be read or written.
    """
    try:
        record = parse_record(question.record)
        if not _is_signed(record, question.keys):
            return {"refused": Reason.APPROVAL_SIGNATURE.value}
        statement = parse_statement(record.text)
    except NotAnApproval:
        return {"refused": Reason.APPROVAL_MALFORMED.value}
    reason = refusal(
        statement,
        device=question.device,
        risky=frozenset(question.risky),
        longest_ms=question.longest_ms,
        now_ms=now_ms,
    ) or note_used(Path(question.used), statement, now_ms, question.longest_ms)
    if reason is not None:
        return {"refused": reason.value}
    return {"digest": statement.digest, "remaining_ms": statement.expires_ms - now_ms}


def note_used(folder: Path, statement: Statement, now_ms: int, keep_ms: int) -> Reason | None:
    """Remember that an approval was presented; why not, if it was before or there is no room.

    Raises:
        OSError: the folder cannot be read or written.
    """
    noted = 0
    for path in folder.iterdir():
        noted += 1
        with contextlib.suppress(OSError, ValueError):
            if now_ms > int(path.read_text(encoding="ascii")) + keep_ms:
                path.unlink()
                noted -= 1
    if (folder / statement.approval).exists():
        return Reason.APPROVAL_USED
    if noted >= MOST_NOTED:
        return Reason.APPROVAL_BUSY
    try:
        with (folder / statement.approval).open("x", encoding="ascii") as file:
            file.write(str(statement.expires_ms))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return Reason.APPROVAL_USED
    sync_directory(folder)
    return None


def _is_signed(record: Record, keys: dict[str, str]) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only where a signature is looked at
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    known = keys.get(record.key)
    if known is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(known)).verify(
            record.signature, SIGNED_PREFIX + record.text
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def _question(data: bytes) -> Question:
    value = strict_json(data)
    if not isinstance(value, dict):
        raise ValueError("the question is not an object")
    return Question(**value)


def main() -> int:
    """Read the question, print the answer."""
    die_with_parent(signal.SIGKILL)
    try:
        question = _question(sys.stdin.buffer.read(LARGEST_QUESTION))
        found = answer(question, SystemClock().wall().unix_ns // NS_PER_MS)
    except (OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"cannot verify the approval: {error}\n")
        return 1
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
