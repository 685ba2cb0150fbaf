"""Writes one part of a recording on a thread of its own, within its bytes.

Whoever is recorded hands over what it has and goes on: rows are made, pictures encoded and files written here. What
finds no room in memory is dropped and counted. Every record carries its number, so that a reader sees each gap.
The files are those of the flight recorder (`monitor.flight`): a process that is killed leaves at most a torn line.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock, WallLabel
from edge_runtime.monitor.flight import FlightRecord, FlightWriter, encode_record
from edge_runtime.recording.folder import LONGEST_LINE
from edge_runtime.recording.head import Head, WhenFull
from edge_runtime.recording.pictures import PictureFolder
from edge_runtime.sources.frame import Image
from edge_runtime.telemetry import get_logger

MOST_WAITING = 4096
"""Records in memory while the disk stalls: some minutes of a camera."""

MOST_PIXEL_BYTES = 64 * 1024 * 1024
"""Pictures in memory: ten of 1080p."""

SYNC_NS = 5 * NS_PER_S
_RESERVE = 4096
"""For the record that says why it ended."""

_LINES_SHARE = 8
"""Where there are pictures the lines have one of so many parts of the bytes."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a recording ended.

    Attributes:
        why: `closed` in order, `full`, `disk`, `time`, `exchanged` (another configuration took over), `defect`.
        text: one sentence for a person.
        records: how many it has.
        lost: records and pictures that are missing in it, by cause.
    """

    why: str
    text: str
    records: int
    lost: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Waiting:
    number: int
    kind: str
    at_ns: int
    wall: WallLabel
    fields: Callable[[], dict[str, Any]]
    picture: Image | None


class RecordingWriter:
    """One part of a recording.

    Args:
        folder: of the part, empty.
        head: what it says of itself; written here.
        clock: time.
        seconds: it ends after so long; None: it does not.
        on_end: told from the writer's thread when it ends by itself.
        most_waiting: records in memory.
        most_pixel_bytes: of pictures in memory.

    Raises:
        OSError: the head cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        head: Head,
        clock: Clock,
        *,
        seconds: float | None = None,
        on_end: Callable[[Ending], None] = lambda _: None,
        most_waiting: int = MOST_WAITING,
        most_pixel_bytes: int = MOST_PIXEL_BYTES,
    ) -> None:
        head.write(folder)
        self._clock, self._on_end = clock, on_end
        self._until_ns = None if seconds is None else clock.monotonic_ns() + int(seconds * NS_PER_S)
        self._stops = head.when_full is WhenFull.STOP
        pictured = any(camera.pictures for camera in head.cameras.values())
        lines_bytes = head.bytes // _LINES_SHARE if pictured else head.bytes
        self._bytes_left = head.bytes - _RESERVE
        self._lines = FlightWriter(folder, lines_bytes, drops_oldest=not self._stops)
        self._pictures = PictureFolder(folder, None if self._stops else head.bytes - lines_bytes)
        self._most, self._most_pixels = most_waiting, most_pixel_bytes
        self._changed = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._pixels = 0
        self._number = self._following = 0
        self._records = 0
        self._lost: Counter[str] = Counter()
        self._closing = self._asked = False
        self._ended: Ending | None = None
        self._unsynced_ns: int | None = None
        self._log = get_logger()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def put(
        self,
        kind: str,
        fields: Callable[[], dict[str, Any]],
        *,
        at_ns: int | None = None,
        picture: Image | None = None,
        waits: bool = False,
    ) -> None:
        """Take one record; nothing of it is worked out before the writer's thread has time for it.

        Args:
            kind: of the record.
            fields: gives them; called from the writer's thread, so what it uses must not change.
            at_ns: CLOCK_MONOTONIC that it is about; now without it.
            picture: to be kept beside it; must not change.
            waits: wait for room in memory, where whoever delivers can wait; otherwise it is dropped and counted.
        """
        wall = self._clock.wall()
        moment_ns = self._clock.monotonic_ns() if at_ns is None else at_ns
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._over or self._has_room(picture))
            if self._over:
                return
            number, self._number = self._number, self._number + 1
            if len(self._waiting) >= self._most:
                self._lost["records, memory was full"] += 1
                return
            if picture is not None and not self._has_room(picture):
                self._lost["pictures, memory was full"] += 1
                picture = None
            self._pixels += 0 if picture is None else picture.nbytes
            self._waiting.append(_Waiting(number, kind, moment_ns, wall, fields, picture))
            self._changed.notify_all()

    def end(self, why: str, text: str) -> None:
        """End after what was put so far; what comes later is not recorded. Never waits."""
        wall, now_ns = self._clock.wall(), self._clock.monotonic_ns()
        with self._changed:
            if not self._over and not self._asked:
                self._asked = True
                self._waiting.append(
                    _Waiting(self._number, "end", now_ns, wall, lambda: {"why": why, "text": text}, None)
                )
                self._changed.notify_all()

    @property
    def ended(self) -> Ending | None:
        """How it ended; None while it records."""
        with self._changed:
            return self._ended

    def close(self, timeout_s: float = 10.0) -> Ending:
        """Write what waits, and end, within so long; how it ended."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        with self._changed:
            if self._ended is not None:
                return self._ended
            text = f"the disk did not take {len(self._waiting)} records in time"
            return Ending("disk", text, self._records, dict(self._lost))

    @property
    def _over(self) -> bool:
        return self._closing or self._asked or self._ended is not None

    def _has_room(self, picture: Image | None) -> bool:
        if len(self._waiting) >= self._most:
            return False
        return picture is None or not self._pixels or self._pixels + picture.nbytes <= self._most_pixels

    # ---- in the writer's thread

    def _run(self) -> None:
        try:
            while self._ended is None:
                item, closing = self._next()
                if self._is_over_at(None if item is None else item.at_ns):
                    self._finish("time", "its time was over")
                elif item is not None:
                    self._take(item)
                elif closing:
                    self._finish("closed", "it was ended in order")
                self._sync_when_due()
        except Exception as error:  # noqa: BLE001 - a defect here must neither stop a camera nor go unsaid
            self._log.error("recording failed", exc_info=error)
            self._finish("defect", f"a defect of the recorder: {type(error).__name__}")
        finally:
            self._lines.sync()
            self._lines.close()

    def _next(self) -> tuple[_Waiting | None, bool]:
        with self._changed:
            if not self._waiting and not self._closing:
                self._changed.wait(self._wait_s())
            if not self._waiting:
                return None, self._closing
            item = self._waiting.popleft()
            self._pixels -= 0 if item.picture is None else item.picture.nbytes
            self._changed.notify_all()
            return item, self._closing

    def _is_over_at(self, at_ns: int | None) -> bool:
        """Whether its time is over, now or at the time of a record."""
        moment_ns = self._clock.monotonic_ns() if at_ns is None else at_ns
        return self._until_ns is not None and moment_ns >= self._until_ns

    def _take(self, item: _Waiting) -> None:
        if item.kind == "end":
            found = item.fields()
            self._finish(found["why"], found["text"])
            return
        self._following = item.number
        fields = {"n": item.number, **item.fields()}
        try:
            if self._keep_picture(item, fields):
                self._write(item, fields)
        except OSError as error:
            self._lose(error.strerror or "it fails")

    def _keep_picture(self, item: _Waiting, fields: dict[str, Any]) -> bool:
        """Put the picture beside its record; False where the recording ended for it."""
        if item.picture is None:
            return True
        data = self._pictures.encode(item.picture)
        if self._stops and len(data) > self._bytes_left:
            self._full()
            return False
        fields["picture"] = self._pictures.keep(item.number, data)
        self._bytes_left -= len(data)
        return True

    def _write(self, item: _Waiting, fields: dict[str, Any]) -> None:
        try:
            line = encode_record(_record(item, fields), LONGEST_LINE)
        except ValueError:
            self._lost["records, too long"] += 1
            return
        if self._stops and len(line) > self._bytes_left:
            self._full()
        elif self._lines.append([line]):
            self._bytes_left -= len(line)
            self._records, self._following = self._records + 1, item.number + 1
            if self._unsynced_ns is None:
                self._unsynced_ns = self._clock.monotonic_ns()
        else:
            self._lose(self._lines.error)

    def _full(self) -> None:
        self._finish("full", "its bytes were used up")

    def _lose(self, why: str) -> None:
        """The disk did not take a record: one that stops is over, one that drops its oldest goes on."""
        first = not self._lost["records, the disk failed"]
        self._lost["records, the disk failed"] += 1
        if self._stops:
            self._finish("disk", f"the disk takes nothing more: {why}")
        elif first:
            self._log.warning("recording cannot be written: records are lost and counted", why=why)

    def _finish(self, why: str, text: str) -> None:
        """Say how it ended, where the disk still takes that."""
        ending = Ending(why, text, self._records, dict(+self._lost))
        number = self._number if why == "closed" else self._following
        now = _Waiting(number, "end", self._clock.monotonic_ns(), self._clock.wall(), dict, None)
        told = {"n": number, "why": why, "text": text, "records": self._records, "lost": ending.lost}
        self._lines.append([encode_record(_record(now, told), LONGEST_LINE)])
        with self._changed:
            by_itself = not self._closing
            self._ended = ending
            self._waiting.clear()
            self._changed.notify_all()
        if why not in ("closed", "time"):
            self._log.warning("recording ended", why=text, records=self._records)
        if by_itself:
            self._on_end(ending)

    def _sync_when_due(self) -> None:
        if self._unsynced_ns is not None and self._clock.monotonic_ns() - self._unsynced_ns >= SYNC_NS:
            self._unsynced_ns = None
            self._lines.sync()

    def _wait_s(self) -> float | None:
        times = [self._until_ns, None if self._unsynced_ns is None else self._unsynced_ns + SYNC_NS]
        due = [at_ns for at_ns in times if at_ns is not None]
        return None if not due else max(0.0, (min(due) - self._clock.monotonic_ns()) / NS_PER_S)


def _record(item: _Waiting, fields: dict[str, Any]) -> FlightRecord:
    wall = item.wall
    return FlightRecord(item.kind, item.at_ns, wall.unix_ns // NS_PER_MS, wall.synced, wall.boot_id, fields)
