"""Where frames wait for the consumer: the newest one of a camera, or every one of a recording, in order.

An unbounded queue turns a camera that is faster than the model into ever older boxes and ever more memory
(open-edge-platform/dlstreamer #64). Both mailboxes are bounded, and count what they drop by its cause.
"""

import threading
from collections import Counter, deque
from enum import Enum
from typing import Protocol

from edge_runtime.sources.frame import Frame


class DropCause(str, Enum):
    """Why a frame, or the packet of one, was not given to the consumer.

    Attributes:
        SUPERSEDED: a newer frame arrived before it was taken.
        TOO_OLD: it was older than the source allows when it was to be taken.
        CORRUPT: its packet could not be decoded.
        PREROLL: it was buffered while the stream was being opened, so its age is unknown.
        BEHIND: decoding fell behind the camera and skipped its packet to reach the newest picture.
        STOPPED: it was still waiting when the source was stopped.
        THERMAL: the device is hot, and only a share of the frames is looked at.
    """

    SUPERSEDED = "superseded"
    TOO_OLD = "too_old"
    CORRUPT = "corrupt"
    PREROLL = "preroll"
    BEHIND = "behind"
    STOPPED = "stopped"
    THERMAL = "thermal"


class Mailbox(Protocol):
    """Between a source's thread and the consumer's."""

    def put(self, frame: Frame) -> bool:
        """Offer a frame; False when the mailbox is closed and the frame is dropped."""
        ...

    def take(self, now_ns: int) -> Frame | None:
        """The next frame, or None; never waits."""
        ...

    def waiting(self, now_ns: int) -> int | None:
        """`capture_ns` of the frame that `take` would give at `now_ns`, or None."""
        ...

    def close(self) -> None:
        """Drop what waits and whatever comes; a `put` that waits returns."""
        ...

    def drops(self) -> Counter[str]:
        """How many frames were dropped here, by cause."""
        ...


class LatestWins:
    """Holds one frame, the newest, and gives it only while it is young enough.

    Args:
        max_age_ns: a frame older than this is dropped when it is to be taken.
    """

    def __init__(self, max_age_ns: int) -> None:
        self._max_age_ns = max_age_ns
        self._lock = threading.Lock()
        self._frame: Frame | None = None
        self._drops: Counter[str] = Counter()
        self._closed = False

    def put(self, frame: Frame) -> bool:
        """Replace what waits."""
        with self._lock:
            if self._closed:
                self._drops[DropCause.STOPPED.value] += 1
                return False
            if self._frame is not None:
                self._drops[DropCause.SUPERSEDED.value] += 1
            self._frame = frame
            return True

    def take(self, now_ns: int) -> Frame | None:
        """The newest frame, unless it is too old."""
        with self._lock:
            frame, self._frame = self._frame, None
            if frame is not None and now_ns - frame.capture_ns > self._max_age_ns:
                self._drops[DropCause.TOO_OLD.value] += 1
                return None
            return frame

    def waiting(self, now_ns: int) -> int | None:
        """Capture time of the frame that would be taken."""
        with self._lock:
            if self._frame is None or now_ns - self._frame.capture_ns > self._max_age_ns:
                return None
            return self._frame.capture_ns

    def close(self) -> None:
        """Drop the frame that waits."""
        with self._lock:
            self._closed = True
            if self._frame is not None:
                self._drops[DropCause.STOPPED.value] += 1
                self._frame = None

    def drops(self) -> Counter[str]:
        """Counts by cause."""
        with self._lock:
            return self._drops.copy()


class InOrder:
    """Holds a few frames, first in first out; a full one makes the reader wait.

    Args:
        capacity: frames it holds.
        max_bytes: pixels it holds, in bytes; two frames fit in any case, so that reading and consuming overlap.
    """

    def __init__(self, capacity: int = 8, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._drops: Counter[str] = Counter()
        self._closed = False

    def put(self, frame: Frame) -> bool:
        """Append, after waiting for room."""
        size = frame.image.nbytes
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(size))
            if self._closed:
                self._drops[DropCause.STOPPED.value] += 1
                return False
            self._frames.append(frame)
            self._bytes += size
            return True

    def _has_room(self, size: int) -> bool:
        held = len(self._frames)
        return held < self._capacity and (held < 2 or self._bytes + size <= self._max_bytes)

    def take(self, now_ns: int) -> Frame | None:  # noqa: ARG002 - a recording's frame does not age
        """The oldest frame."""
        with self._changed:
            if not self._frames:
                return None
            frame = self._frames.popleft()
            self._bytes -= frame.image.nbytes
            self._changed.notify()
            return frame

    def waiting(self, now_ns: int) -> int | None:  # noqa: ARG002 - a recording's frame does not age
        """Capture time of the oldest frame."""
        with self._changed:
            return self._frames[0].capture_ns if self._frames else None

    def close(self) -> None:
        """Drop the frames that wait."""
        with self._changed:
            self._closed = True
            self._drops[DropCause.STOPPED.value] += len(self._frames)
            self._frames.clear()
            self._bytes = 0
            self._changed.notify_all()

    def drops(self) -> Counter[str]:
        """Counts by cause."""
        with self._changed:
            return +self._drops
