"""Draws and writes on a thread of its own, so that looking never slows what is looked at.

The loop hands over a frame with what was made of it and goes on. For recordings it waits when the recorder is
behind (every frame is in the video); for live cameras a frame is left out and counted, never its events. A
full disk ends the video, is reported once and counted; the run goes on.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.annotation.captions import event_caption
from edge_runtime.annotation.contact_sheet import ContactSheet
from edge_runtime.annotation.draw import Annotator
from edge_runtime.annotation.palette import severity_color
from edge_runtime.annotation.video import VideoWriter
from edge_runtime.errors import AnnotationError
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import EventRecord, EventState
from edge_runtime.sources.frame import Frame, Image

_CAPACITY = 8
"""Frames that may wait; at 1920x1080 they hold 50 MB."""


@dataclass(frozen=True, slots=True)
class RecorderStatus:
    """What became of the frames that were handed over.

    Attributes:
        written: frames in the video, or drawn where there is none.
        dropped: left out because the recorder was behind a live camera.
        failed: not written because of `error`.
        error: the first thing that went wrong, in one sentence.
        video_written: there is a video with frames of this run; False until it is finished.
        sheet_written: there is a contact sheet of this run; False until it is finished.
    """

    written: int = 0
    dropped: int = 0
    failed: int = 0
    error: str | None = None
    video_written: bool = False
    sheet_written: bool = False


@dataclass(frozen=True, slots=True)
class _Scene:
    frame: Frame
    tracks: Tracks | None
    events: tuple[EventRecord, ...]
    notice: str | None


class Recorder:
    """The annotated video and the contact sheet of one camera.

    Args:
        annotator: draws this camera's frames.
        video: where to, or None.
        sheet: where event and periodic tiles go, or None.
        sheet_path: written on `close`, when there is a sheet; an older file there is removed at once, so that
            it cannot pass for what this run saw.
        title: heading of the sheet.
        wait: let `add` wait while the recorder is behind (recordings); otherwise frames are left out.
    """

    def __init__(
        self,
        annotator: Annotator,
        *,
        video: VideoWriter | None = None,
        sheet: ContactSheet | None = None,
        sheet_path: Path | None = None,
        title: str = "",
        wait: bool = True,
    ) -> None:
        self._annotator = annotator
        self._video = video
        self._sheet = sheet
        self._sheet_path = sheet_path
        self._title = title
        self._wait = wait
        self._changed = threading.Condition(threading.RLock())
        self._waiting: deque[_Scene] = deque()
        self._carried: tuple[EventRecord, ...] = ()
        self._closed = False
        self._written = self._dropped = self._failed = 0
        self._error: str | None = None
        self._video_written = self._sheet_written = False
        if sheet is not None and sheet_path is not None and sheet_path.is_file():
            with contextlib.suppress(OSError):  # saving the new one will say why
                sheet_path.unlink()
        self._thread = threading.Thread(target=self._run, name="annotation", daemon=True)
        self._thread.start()

    def add(
        self,
        frame: Frame,
        tracks: Tracks | None,
        events: Sequence[EventRecord] = (),
        notice: str | None = None,
    ) -> None:
        """Hands over one frame; arguments as of `Annotator.draw`. Nothing of it may be changed afterwards."""
        with self._changed:
            while self._wait and len(self._waiting) >= _CAPACITY and not self._closed:
                self._changed.wait()
            if self._closed:
                self._failed += 1
                return
            all_events = (*self._carried, *events)
            if len(self._waiting) >= _CAPACITY:
                self._dropped += 1
                self._carried = all_events
                return
            self._carried = ()
            self._waiting.append(_Scene(frame, tracks, all_events, notice))
            self._changed.notify_all()

    def status(self) -> RecorderStatus:
        """The counts so far."""
        with self._changed:
            return RecorderStatus(
                self._written,
                self._dropped,
                self._failed,
                self._error,
                self._video_written,
                self._sheet_written,
            )

    def close(self, timeout_s: float = 60.0) -> RecorderStatus:
        """Writes what was handed over, finishes the video and the sheet; may be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._fail(f"the annotated video was still being written after {timeout_s:g} s", frames=0)
        return self.status()

    def _fail(self, reason: str, frames: int = 1) -> None:
        with self._changed:
            self._failed += frames
            self._error = self._error or reason

    def _give_up(self, reason: str) -> None:
        with self._changed:
            self._closed = True
            self._fail(reason, frames=1 + len(self._waiting))
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (scene := self._next()) is not None:
                self._record(scene)
            self._finish()
        except Exception as error:  # noqa: BLE001 - a defect in drawing must not hold up what is drawn
            self._give_up(f"annotation stopped: unexpected {type(error).__name__}: {error}")
            self._close_video()

    def _next(self) -> _Scene | None:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            scene = self._waiting.popleft() if self._waiting else None
            self._changed.notify_all()
            return scene

    def _record(self, scene: _Scene) -> None:
        image = self._annotator.draw(scene.frame, scene.tracks, scene.events, scene.notice)
        self._add_tiles(scene, image)
        if self._video is None and self._error is not None:
            self._fail(self._error)
            return
        try:
            if self._video is not None:
                self._video.write(image, scene.frame.media_ns, scene.frame.epoch)
        except AnnotationError as error:
            self._fail(str(error))
            self._close_video()
            return
        with self._changed:
            self._written += 1

    def _add_tiles(self, scene: _Scene, image: Image) -> None:
        if self._sheet is None:
            return
        frame = scene.frame
        shown = [event for event in scene.events if event.state is not EventState.UPDATED]
        if shown:
            gravest = max((event.severity for event in shown), key=lambda severity: severity.rank)
            self._sheet.add_event(image, "; ".join(map(event_caption, shown)), severity_color(gravest))
        elif self._sheet.wants(frame.media_ns, frame.epoch):
            caption = f"{frame.media_ns / 1e9:.1f} s"
            self._sheet.add_periodic(image, caption, frame.media_ns, frame.epoch)

    def _finish(self) -> None:
        self._close_video()
        if self._sheet is not None and self._sheet_path is not None:
            try:
                self._sheet.save(self._sheet_path, self._title)
                with self._changed:
                    self._sheet_written = True
            except AnnotationError as error:
                self._fail(str(error), frames=0)

    def _close_video(self) -> None:
        video, self._video = self._video, None
        if video is None:
            return
        try:
            video.close()
        except AnnotationError as error:
            self._fail(str(error), frames=0)
        with self._changed:
            self._video_written = video.written
