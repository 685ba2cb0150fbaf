"""Upload of evidence: crops whose event was receipted, in pieces over HTTPS, resumed where the server stands.

Only digests that the outbox names are asked for: those that a decision let go, and whose event the server
has committed. A crop is sent when events leave time for it; its bytes count against the day's budget.
"""

import errno
import hashlib
import os
import random
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import httpx

from edge_runtime.clock import Clock
from edge_runtime.identity.deadline import Deadline
from edge_runtime.outbox import EvidenceDue, OutboxError
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.ports import EvidenceQueue, LinkIdentity
from edge_runtime.uplink.settings import UplinkSettings
from edge_runtime.uplink.watchdog import RetrySettings, retry_ns

_LISTED = 16
_OPERATION_S = 15.0
_REQUEST_S = 60.0
_OVERHEAD_BYTES = 512
_IDLE_S = 2.0
_BROKE_S = 60.0
_MAX_CROP = 16 * 1024 * 1024
_RETRY = RetrySettings(first_s=5.0, cap_s=600.0)


class Verdict(Enum):
    """What became of one attempt.

    Attributes:
        DONE: the server has the whole file, and its digest matches.
        LATER: it may work another time.
        NEVER: it cannot: the file here is not what was promised, or the server takes none such.
        BROKE: the day's bytes are spent.
    """

    DONE = "done"
    LATER = "later"
    NEVER = "never"
    BROKE = "broke"


@dataclass(slots=True)
class _Backoff:
    tries: int = 0
    next_ns: int = 0


class UploadClient:
    """Speaks the evidence protocol with one server.

    Args:
        url: of the server, `https://…`.
        client: with the device's certificate; follows no redirects.
        piece_bytes: in one request.
        budget: pays for every piece.
        stop: set when the process ends: the present piece is the last.
        clock: measures a request.
        limit_s: for one request, however slow the other side is.
    """

    def __init__(
        self,
        url: str,
        client: httpx.Client,
        *,
        piece_bytes: int,
        budget: ByteBudget,
        stop: threading.Event,
        clock: Clock,
        limit_s: float = _REQUEST_S,
    ) -> None:
        self._url, self._client, self._piece, self._budget, self._stop = (
            url.rstrip("/"),
            client,
            piece_bytes,
            budget,
            stop,
        )
        self._deadline = Deadline(limit_s, clock)

    def upload(self, due: EvidenceDue) -> Verdict:
        """Bring the server's copy to its end, or as far as it goes now."""
        try:
            data = _read(Path(due.path), due)
            return Verdict.NEVER if data is None else self._send(due, data)
        except (OSError, httpx.HTTPError, ValueError) as error:
            get_logger().warning("evidence was not uploaded", why=type(error).__name__)
            return Verdict.LATER

    def _send(self, due: EvidenceDue, data: bytes) -> Verdict:
        if not self._budget.claim(_OVERHEAD_BYTES):
            return Verdict.BROKE
        answer = self._request("HEAD", due.sha256)
        if answer.status_code not in (200, 204):
            return _refusal(answer.status_code)
        offset = _offset(answer, len(data))
        while offset < len(data) and not self._stop.is_set():
            piece = data[offset : offset + self._piece]
            if not self._budget.claim(len(piece) + _OVERHEAD_BYTES):
                return Verdict.BROKE
            answer = self._request("PATCH", due.sha256, piece, offset)
            if answer.status_code != 204:
                return _refusal(answer.status_code)
            reached = _offset(answer, len(data))
            if reached <= offset:
                break
            offset = reached
        return Verdict.DONE if offset == len(data) else Verdict.LATER

    def _request(
        self, method: str, sha256: str, piece: bytes | None = None, offset: int = 0
    ) -> httpx.Response:
        headers = {}
        if piece is not None:
            headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        with self._deadline:
            request = self._client.build_request(
                method,
                f"{self._url}/v1/evidence/{sha256}",
                content=piece,
                headers=headers,
                extensions={"trace": self._deadline.trace},
            )
            answer = self._client.send(request, stream=True)
            answer.close()  # nothing that these answers say is in a body
            return answer


class EvidenceUploader:
    """A thread that uploads what is due, one crop after the other.

    Args:
        identity: gives the present one.
        settings: of the uplink.
        outbox: a connection of its own.
        budget: the day's bytes.
        online: whether the server answers, as far as the uplink knows; nothing is tried before.
        clock: monotonic time.
        rng: for jitter.
        look_s: between two looks at what is due.

    Attributes:
        done, later, never: attempts by what became of them.
    """

    def __init__(
        self,
        identity: Callable[[], LinkIdentity],
        settings: UplinkSettings,
        *,
        outbox: EvidenceQueue,
        budget: ByteBudget,
        online: Callable[[], bool],
        clock: Clock,
        rng: random.Random,
        look_s: float = _IDLE_S,
    ) -> None:
        self._look_s = look_s
        self._identity, self._settings, self._outbox, self._budget = identity, settings, outbox, budget
        self._online, self._clock, self._rng = online, clock, rng
        self._stop = threading.Event()
        self._waits: dict[str, _Backoff] = {}
        self._thread = threading.Thread(target=self._run, name="uplink-evidence", daemon=True)
        self.done = self.later = self.never = 0

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End after the present piece; what is left goes another time."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        wait_s = self._look_s
        while not self._stop.wait(wait_s):
            wait_s = self._look_s
            if not self._online():
                continue
            try:
                wait_s = self._round()
            except OutboxError:
                continue
            except Exception as error:  # noqa: BLE001 - evidence waits; the thread must live on
                get_logger().error("uploading evidence failed", exc_info=error)

    def _round(self) -> float:
        """Upload what is due.

        Returns:
            Seconds until the next look.
        """
        identity = self._identity()
        url = self._settings.server_url or identity.server_url
        now = self._clock.monotonic_ns()
        listed = self._outbox.evidence_due(_LISTED)
        self._waits = {
            sha: wait for sha, wait in self._waits.items() if sha in {due.sha256 for due in listed}
        }
        ready = [due for due in listed if self._wait(due).next_ns <= now]
        if url is None or not ready:
            return self._look_s
        tls = identity.tls()
        with httpx.Client(
            verify=True if tls is None else tls,
            proxy=self._settings.proxy,
            trust_env=False,
            timeout=httpx.Timeout(_OPERATION_S),
            limits=httpx.Limits(max_connections=1),
        ) as client:
            upload = UploadClient(
                url,
                client,
                piece_bytes=self._settings.piece_bytes,
                budget=self._budget,
                stop=self._stop,
                clock=self._clock,
            )
            for due in ready:
                verdict = upload.upload(due)
                self._book(due, verdict)
                if verdict is Verdict.BROKE:
                    return _BROKE_S
                if self._stop.is_set() or not self._online():
                    break
        return 0.0 if len(ready) == _LISTED else self._look_s

    def _book(self, due: EvidenceDue, verdict: Verdict) -> None:
        if verdict is Verdict.DONE:
            self.done += 1
            self._outbox.evidence_done(due.sha256)
        elif verdict is Verdict.NEVER:
            self.never += 1
            self._outbox.evidence_failed(due.sha256, permanent=True)
        elif verdict is Verdict.LATER:
            self.later += 1
            wait = self._wait(due)
            wait.tries += 1
            wait.next_ns = self._clock.monotonic_ns() + retry_ns(_RETRY, wait.tries, self._rng)
            self._outbox.evidence_failed(due.sha256, permanent=False)

    def _wait(self, due: EvidenceDue) -> _Backoff:
        return self._waits.setdefault(due.sha256, _Backoff())


def _read(path: Path, due: EvidenceDue) -> bytes | None:
    """The crop's bytes, or None where the file is gone or is not what was promised.

    Raises:
        OSError: it is there and cannot be read now.
    """
    if due.bytes > _MAX_CROP:
        return None
    try:
        # a link is none of ours, and a pipe in its place must not keep the thread for ever
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.pread(fd, due.bytes + 1, 0) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise
        return None
    return data if len(data) == due.bytes and hashlib.sha256(data).hexdigest() == due.sha256 else None


def _offset(answer: httpx.Response, size: int) -> int:
    text = answer.headers.get("Upload-Offset", "")
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= size):
        raise ValueError("the server names no offset of this file")
    return int(text)


def _refusal(status: int) -> Verdict:
    """413 and 415 mean that no such file is ever taken; all else may change: 403 until the event is committed."""
    return Verdict.NEVER if status in (413, 415) else Verdict.LATER
