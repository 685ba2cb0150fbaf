"""Acknowledgements: what a person signs to leave a latched state, and the process that looks at the signature.

    python -m edge_runtime.guard.acknowledgement     one question as JSON on standard input, one answer

The guard's loop has no cryptography: a process of its own verifies and ends. Anything but a yes, and no answer in
time, is a no. A signed text names one latch of one device; ids of latches cannot be guessed and never come again,
so a text that was used, or is about another latch, opens nothing.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from edge_runtime.guard.memory import Acknowledgement
from edge_runtime.guard.motion_gate.children import Doomed
from edge_runtime.guard.strict_json import strict_json
from edge_runtime.lifeline import die_with_parent, told_parent

if TYPE_CHECKING:
    import subprocess

SIGNED_PREFIX = b"edge-runtime acknowledgement v1\n"
"""What is signed is this and the text, so that no other signed text of ours can pass for an acknowledgement."""

ANSWER_NS = 5_000_000_000
"""How long the verifier may take: it loads a library, on a machine that may be busy."""

MOST_ENDING = 3
"""Verifiers that were told to end and have not yet; one more is not started."""

LARGEST_TEXT = 600
_LARGEST_QUESTION = 1 << 16
_LARGEST_ANSWER = 4096
_COMMAND = (sys.executable, "-m", "edge_runtime.guard.acknowledgement")
_SAID = frozenset({"latch", "by", "reason"})
_KEYS = _SAID | {"device"}


def text_of(latch: str, device: str, by: str, reason: str) -> bytes:
    """What is signed, without the prefix.

    Args:
        latch: id of the latch.
        device: id of the device.
        by: who acknowledges.
        reason: why it is safe to go on.

    Raises:
        ValueError: longer than the guard reads.
    """
    text = json.dumps({"latch": latch, "device": device, "by": by, "reason": reason}).encode()
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"an acknowledgement has at most {LARGEST_TEXT} bytes; say it in fewer words")
    return text


class Answer(NamedTuple):
    """What came of an acknowledgement.

    Attributes:
        acknowledgement: for the state machine, which may still refuse it; None where it was not verified.
        text: one sentence.
        by, reason: who signed, and why it is safe to go on; empty where it was not verified.
    """

    acknowledgement: Acknowledgement | None
    text: str
    by: str = ""
    reason: str = ""


class Verification:
    """Verifies acknowledgements, one at a time, without waiting.

    Args:
        device: this device's id.
        keys: Ed25519 public keys, 32 bytes in hex, by name.
        command: the verifier; tests hand in one that does not answer.
    """

    def __init__(self, device: str, keys: dict[str, str], command: Sequence[str] = _COMMAND) -> None:
        self._device, self._keys, self._command = device, keys, tuple(command)
        self._child: subprocess.Popen[bytes] | None = None
        self._doomed = Doomed()
        self._received_ns = 0
        self._heard = b""

    def present(self, record: object, now_ns: int) -> str | None:
        """Take one to be verified; why not, a sentence, if it cannot be."""
        import subprocess  # noqa: PLC0415 - see loop.Guard._load

        self._doomed.reap()
        if not self._keys:
            return "this device's configuration names nobody who may acknowledge"
        if self._child is not None or len(self._doomed) > MOST_ENDING:
            return "another acknowledgement is being verified; send it again"
        question = json.dumps({"record": record, "device": self._device, "keys": self._keys}).encode()
        if len(question) > _LARGEST_QUESTION:
            return "the acknowledgement is too long"
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(writing, False)
            if os.write(writing, question) < len(question):
                return "the acknowledgement is too long"
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                self._command,
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=told_parent(os.environ),
            )
        except OSError as error:
            return f"the verifier cannot be started: {error.strerror}"
        finally:
            os.close(reading)
            os.close(writing)
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._received_ns, self._heard = now_ns, b""
        return None

    def poll(self, now_ns: int) -> Answer | None:
        """What came of it; None while it is being verified, or if there is none."""
        if self._child is None or self._child.stdout is None:
            return None
        try:
            came = os.read(self._child.stdout.fileno(), _LARGEST_ANSWER)
        except BlockingIOError:
            if now_ns - self._received_ns <= ANSWER_NS:
                return None
            self.close()
            return Answer(None, "the acknowledgement is refused: its signature could not be verified in time")
        self._heard += came
        if came and len(self._heard) <= _LARGEST_ANSWER:
            return None
        self.close()
        return _understood(self._heard, self._received_ns)

    @property
    def due_ns(self) -> int | None:
        """When it gives up."""
        return None if self._child is None else self._received_ns + ANSWER_NS + 1

    def filenos(self) -> list[int]:
        """Descriptor to wait for."""
        return [] if self._child is None or self._child.stdout is None else [self._child.stdout.fileno()]

    def close(self) -> None:
        """End the verifier that runs."""
        if self._child is not None:
            if self._child.stdout is not None:
                self._child.stdout.close()
            self._doomed.add(self._child, group=False)
            self._child = None


def _understood(heard: bytes, received_ns: int) -> Answer:
    try:
        value = strict_json(heard)
    except ValueError:
        value = None
    if isinstance(value, dict) and value.keys() == _SAID and all(isinstance(v, str) for v in value.values()):
        found = Acknowledgement(value["latch"], received_ns)
        return Answer(found, "the signature is good", value["by"], value["reason"])
    if isinstance(value, dict) and value.keys() == {"refused"} and isinstance(value["refused"], str):
        return Answer(None, f"the acknowledgement is refused: {value['refused'][:200]}")
    return Answer(None, "the acknowledgement is refused: its signature could not be verified")


# -- the verifier's process -------------------------------------------------------------------------------------


def answer(question: object) -> dict[str, str]:
    """The answer to one question: `latch`, `by` and `reason`, or `refused` and why."""
    try:
        return _verified(question)
    except _Refused as why:
        return {"refused": str(why)}


class _Refused(ValueError):
    """Why an acknowledgement is of no use."""


def _verified(question: object) -> dict[str, str]:
    """What a signed text says: of which latch, by whom, and why.

    Raises:
        _Refused: it is not signed by a known key, not readable, or about another device.
    """
    import base64  # noqa: PLC0415 - the guard's loop imports this module

    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    if not isinstance(question, dict) or not isinstance(question.get("record"), dict):
        raise _Refused("it is not an acknowledgement")
    record = question["record"]
    try:
        text = base64.b64decode(record["text"], validate=True)
        signature = base64.b64decode(record["signature"], validate=True)
        known = question["keys"].get(record["key"])
    except (KeyError, TypeError, ValueError):
        raise _Refused("it is not an acknowledgement") from None
    if known is None:
        raise _Refused("the configuration does not know its key")
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(known)).verify(signature, SIGNED_PREFIX + text)
        said = strict_json(text)
    except (InvalidSignature, ValueError):
        raise _Refused("its signature is wrong") from None
    if (
        not isinstance(said, dict)
        or said.keys() != _KEYS
        or not all(isinstance(v, str) for v in said.values())
    ):
        raise _Refused("it is not an acknowledgement")
    if said["device"] != question["device"]:
        raise _Refused("it is about another device")
    return {key: said[key] for key in _SAID}


def main() -> int:
    """Read the question, print the answer."""
    die_with_parent(signal.SIGKILL)
    try:
        found = answer(json.loads(sys.stdin.buffer.read(_LARGEST_QUESTION + 1)))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        sys.stderr.write(f"cannot verify the acknowledgement: {type(error).__name__}\n")
        return 1
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
