"""The outbox as other processes see it: the same methods, over its socket."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from edge_runtime.clock import Clock
from edge_runtime.outbox.calls import signature
from edge_runtime.outbox.frames import FrameError, FrameStream, encode_frame
from edge_runtime.outbox.packing import CallError
from edge_runtime.outbox.records import (
    DeadLetter,
    EvidenceDue,
    HeldEntry,
    HeldItem,
    NotAccepted,
    OutboxError,
    OutboxStatus,
    OutboxUnavailable,
    PutResult,
    QueuedEntry,
    QueuedItem,
    Settled,
    Submission,
    SyncPoint,
)
from edge_runtime.protocol.delivery import OutcomeRange, Receipt
from edge_runtime.state import short_socket_path


class OutboxClient:
    """Calls the outbox's process. Methods are those of `Outbox`; see there.

    It connects at the first call, and anew at the first call after a failure. Threads may share it; they take
    turns, so a thread that waits long should have one of its own. Leases belong to the connection: when it ends,
    they end.

    Args:
        path: of the socket.
        clock: measures the timeout.
        timeout_s: of one call, above what `wait` was asked to wait.

    Every method raises OutboxUnavailable when the process does not answer, and OutboxError or ValueError as
    `Outbox` does. After OutboxUnavailable a put may have been committed: send it again under the same key.
    """

    def __init__(self, path: Path, clock: Clock, timeout_s: float = 5.0) -> None:
        self._path, self._clock, self._timeout_s = Path(path), clock, timeout_s
        self._stream: FrameStream | None = None
        self._turn = threading.Lock()

    def put(self, submissions: Sequence[Submission]) -> list[PutResult]:
        """See `Outbox.put`."""
        return self._call("put", submissions=submissions)  # type: ignore[no-any-return]

    def count_not_accepted(self, reason: NotAccepted, number: int) -> None:
        """See `Outbox.count_not_accepted`."""
        self._call("count_not_accepted", reason=reason, number=number)

    def lease(self, max_items: int, max_bytes: int, min_severity: int = 0) -> list[QueuedItem]:
        """See `Outbox.lease`."""
        return self._call("lease", max_items=max_items, max_bytes=max_bytes, min_severity=min_severity)  # type: ignore[no-any-return]

    def unlease(self, seqs: Sequence[int] | None = None, *, tried: bool = False) -> int:
        """See `Outbox.unlease`; None returns all that this connection has."""
        return self._call("unlease", seqs=seqs, tried=tried)  # type: ignore[no-any-return]

    def wait(self, timeout_s: float) -> bool:
        """See `Outbox.wait`; at most 60 s."""
        return self._call("wait", timeout_s, timeout_s=timeout_s)  # type: ignore[no-any-return]

    def settle(self, epoch: str, receipt: Receipt) -> Settled:
        """See `Outbox.settle`."""
        return self._call("settle", epoch=epoch, receipt=receipt)  # type: ignore[no-any-return]

    def sync_point(self) -> SyncPoint:
        """See `Outbox.sync_point`."""
        return self._call("sync_point")  # type: ignore[no-any-return]

    def outcomes(self, limit: int) -> list[OutcomeRange]:
        """See `Outbox.outcomes`."""
        return self._call("outcomes", limit=limit)  # type: ignore[no-any-return]

    def next_session(self) -> int:
        """See `Outbox.next_session`."""
        return self._call("next_session")  # type: ignore[no-any-return]

    def evidence_due(self, limit: int) -> list[EvidenceDue]:
        """See `Outbox.evidence_due`."""
        return self._call("evidence_due", limit=limit)  # type: ignore[no-any-return]

    def evidence_done(self, sha256: str) -> bool:
        """See `Outbox.evidence_done`."""
        return self._call("evidence_done", sha256=sha256)  # type: ignore[no-any-return]

    def evidence_failed(self, sha256: str, permanent: bool) -> None:  # noqa: FBT001 - part of the contract
        """See `Outbox.evidence_failed`."""
        self._call("evidence_failed", sha256=sha256, permanent=permanent)

    def held(self, limit: int, after: bytes = b"") -> list[HeldEntry]:
        """See `Outbox.held`."""
        return self._call("held", limit=limit, after=after)  # type: ignore[no-any-return]

    def held_item(self, key: bytes) -> HeldItem | None:
        """See `Outbox.held_item`."""
        return self._call("held_item", key=key)  # type: ignore[no-any-return]

    def release(self, key: bytes, submission: Submission) -> PutResult | None:
        """See `Outbox.release`."""
        return self._call("release", key=key, submission=submission)  # type: ignore[no-any-return]

    def drop(self, key: bytes, receipt: bytes, *, decision_key: bytes | None = None) -> bool:
        """See `Outbox.drop`."""
        return self._call("drop", key=key, receipt=receipt, decision_key=decision_key)  # type: ignore[no-any-return]

    def decisions(self, limit: int, skip: int = 0) -> list[bytes]:
        """See `Outbox.decisions`."""
        return self._call("decisions", limit=limit, skip=skip)  # type: ignore[no-any-return]

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """See `Outbox.dead_letters`."""
        return self._call("dead_letters", limit=limit)  # type: ignore[no-any-return]

    def queued(self, limit: int, after: int = 0) -> list[QueuedEntry]:
        """See `Outbox.queued`."""
        return self._call("queued", limit=limit, after=after)  # type: ignore[no-any-return]

    def bodies(self, limit: int, after: int = 0) -> list[tuple[int, bytes]]:
        """See `Outbox.bodies`."""
        return self._call("bodies", limit=limit, after=after)  # type: ignore[no-any-return]

    def status(self) -> OutboxStatus:
        """See `Outbox.status`."""
        return self._call("status")  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the connection and its leases; the next call makes another."""
        with self._turn:
            self._disconnect()

    def _call(self, method: str, extra_s: float = 0.0, **arguments: Any) -> Any:
        how = signature(method)
        given = {name: how.arguments[name].pack(value) for name, value in arguments.items()}
        frame = encode_frame([method, given])
        with self._turn:
            try:
                reply = self._exchange(frame, extra_s)
            except (OSError, FrameError) as error:
                self._disconnect()
                why = getattr(error, "strerror", None) or str(error)
                raise OutboxUnavailable(f"the outbox does not answer at {self._path}: {why}") from None
        return _unwrap(how.answer.unpack, reply)

    def _exchange(self, frame: bytes, extra_s: float) -> Any:
        if self._stream is not None and self._stream.has_left():
            self._disconnect()  # the process was restarted since the last call
        if self._stream is None:
            self._stream = self._connect()
        self._stream.send(frame, self._timeout_s)
        return self._stream.read(self._timeout_s, first_s=self._timeout_s + max(0.0, extra_s))

    def _connect(self) -> FrameStream:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(self._timeout_s)
        try:
            with short_socket_path(self._path) as name:
                connection.connect(name)
        except OSError:
            connection.close()
            raise
        connection.settimeout(None)
        return FrameStream(connection, self._clock)

    def _disconnect(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None


def _unwrap(check: Any, reply: Any) -> Any:
    """The answer in a reply, or the error that it carries."""
    if not isinstance(reply, list) or len(reply) != 2:
        raise OutboxError("the outbox answered something that is no answer")
    kind, value = reply
    if kind == "failed":
        raise OutboxError(str(value))
    if kind == "refused":
        raise ValueError(str(value))
    try:
        return check(value)
    except (ValidationError, CallError):
        raise OutboxError("the outbox answered something else than was asked") from None
