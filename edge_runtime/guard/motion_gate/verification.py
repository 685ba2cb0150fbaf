"""The motion gate's side of the verifier: starts it, waits without waiting, and takes silence for a no."""

import base64
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from edge_runtime.guard.motion_gate.approvals import Record
from edge_runtime.guard.motion_gate.children import ENDS_S, Doomed
from edge_runtime.guard.motion_gate.limits import Profile
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.strict_json import strict_json
from edge_runtime.lifeline import told_parent

MOST_QUEUED = 4
"""Approvals that wait for the one that is being verified; one more is refused."""

_NS_PER_MS = 1_000_000
_LARGEST_ANSWER = 4096
_LONGEST_NS = 1 << 62
COMMAND = (sys.executable, "-m", "edge_runtime.guard.motion_gate.verifier")


class Approvers(NamedTuple):
    """Who may approve.

    Attributes:
        keys: Ed25519 public keys, 32 bytes in hex, by name.
        used: folder that notes used approvals; on a disk that survives a reboot.
        answer_ns: how long the verifier may take, greater than 0.
    """

    keys: dict[str, str]
    used: Path
    answer_ns: int


class Verdict(NamedTuple):
    """What came of one approval.

    Attributes:
        refused: why it is of no use; None if it was verified.
        presented_ns: when it was presented.
        digest: of the action that it allows.
        until_ns: until when, on CLOCK_MONOTONIC.
    """

    refused: Reason | None
    presented_ns: int
    digest: str = ""
    until_ns: int = 0


class Verification:
    """Verifies approvals one after the other, each in a process of its own.

    Args:
        approvers: who may approve.
        profile: which actions are risky, and how long an approval may last.
        device: this device's id.
        command: the verifier; tests hand in one that does not answer.
    """

    def __init__(
        self, approvers: Approvers, profile: Profile, device: str, command: Sequence[str] = COMMAND
    ) -> None:
        self._approvers, self._profile, self._device = approvers, profile, device
        self._command = tuple(command)
        self._queue: deque[tuple[Record, int]] = deque()
        self._doomed = Doomed()
        self._presented_ns = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._started_ns = 0
        self._heard = b""

    def present(self, record: Record, now_ns: int) -> Reason | None:
        """Take an approval to be verified; why not, if there are too many or the verifier cannot be started."""
        self._doomed.reap()
        if self._doomed:  # killed for not answering, and it does not even end
            return Reason.APPROVAL_BUSY
        if self._child is None:
            return None if self._start(record, now_ns, now_ns) else Reason.APPROVAL_UNANSWERED
        if len(self._queue) >= MOST_QUEUED:
            return Reason.APPROVAL_BUSY
        self._queue.append((record, now_ns))
        return None

    def poll(self, now_ns: int) -> Verdict | None:
        """What came of the approval that was being verified; None while it is, or if there is none."""
        if self._child is None:
            return None
        verdict = self._heard_verdict(now_ns)
        if verdict is None and now_ns - self._started_ns > self._approvers.answer_ns:
            verdict = Verdict(Reason.APPROVAL_UNANSWERED, self._presented_ns)
        if verdict is None:
            return None
        self._end()
        if self._queue:
            record, presented_ns = self._queue.popleft()
            if self._doomed or not self._start(record, presented_ns, now_ns):
                self._queue.clear()  # nothing can be verified now; whoever wants to act presents it again
        return verdict

    def filenos(self) -> list[int]:
        """Descriptor to wait for."""
        return [] if self._child is None or self._child.stdout is None else [self._child.stdout.fileno()]

    def close(self) -> None:
        """End the verifier that runs."""
        self._queue.clear()
        if self._child is not None:
            self._end()
        self._doomed.wait(ENDS_S)

    def _start(self, record: Record, presented_ns: int, now_ns: int) -> bool:
        question = json.dumps(
            {
                "record": {
                    "text": base64.b64encode(record.text).decode(),
                    "key": record.key,
                    "signature": base64.b64encode(record.signature).decode(),
                },
                "device": self._device,
                "risky": sorted(self._profile.risky),
                "longest_ms": self._profile.longest_approval_ns // _NS_PER_MS,
                "keys": self._approvers.keys,
                "used": str(self._approvers.used),
            }
        ).encode()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(writing, False)
            if os.write(writing, question) < len(question):
                return False
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                self._command,
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=told_parent(os.environ),
            )
        except OSError:
            return False
        finally:
            os.close(reading)
            os.close(writing)
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._presented_ns, self._started_ns, self._heard = presented_ns, now_ns, b""
        return True

    def _heard_verdict(self, now_ns: int) -> Verdict | None:
        """The verdict once the verifier has closed its output; None while it has not."""
        assert self._child is not None
        assert self._child.stdout is not None
        try:
            came = os.read(self._child.stdout.fileno(), _LARGEST_ANSWER)
        except BlockingIOError:
            return None
        self._heard += came
        if came and len(self._heard) <= _LARGEST_ANSWER:
            return None
        return self._understood(now_ns)

    def _understood(self, now_ns: int) -> Verdict:
        unanswered = Verdict(Reason.APPROVAL_UNANSWERED, self._presented_ns)
        try:
            value = strict_json(self._heard)
            if not isinstance(value, dict):
                return unanswered
            if value.keys() == {"refused"}:
                return Verdict(Reason(value["refused"]), self._presented_ns)
            if value.keys() != {"digest", "remaining_ms"} or not isinstance(value["digest"], str):
                return unanswered
            remaining_ms = value["remaining_ms"]
        except ValueError:
            return unanswered
        if not isinstance(remaining_ms, int) or isinstance(remaining_ms, bool) or remaining_ms <= 0:
            return unanswered
        # Counted from the start, before the verifier read its clock, and never longer than one may last.
        left_ns = min(remaining_ms * _NS_PER_MS, self._profile.longest_approval_ns, _LONGEST_NS - now_ns)
        return Verdict(None, self._presented_ns, value["digest"], self._started_ns + left_ns)

    def _end(self) -> None:
        assert self._child is not None
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._doomed.add(self._child, group=False)
        self._child = None
