"""Writes annotated frames as a video file that plays everywhere, with the frames' own times.

H.264 where the FFmpeg inside PyAV can encode it, else MPEG-4 part 2. The MP4 is written in fragments and
turned into a plain one when it is closed: a finished file has a frame count and can be searched, and one
whose writer was killed still plays up to its last complete second or two.
"""

import contextlib
import os
from fractions import Fraction
from pathlib import Path

import av
import av.container
import av.error
import av.video.stream
import cv2
import numpy as np

from edge_runtime.errors import AnnotationError
from edge_runtime.sources.frame import Image

TIME_BASE = Fraction(1, 60_000)
ENCODERS = ("libx264", "libopenh264", "mpeg4")
"""In order of preference."""

_CONTAINERS = {".mp4": "mp4", ".m4v": "mp4", ".mkv": "matroska"}
_HYBRID_SINCE = (61, 7)  # libavformat of FFmpeg 7.1, which brought `hybrid_fragmented`
_ENCODER_OPTIONS = {
    # One thread and no look-ahead: the model needs the cores, and memory must not depend on the scene.
    # 768x576 at crf 23 here: ultrafast 6.4 ms a frame, superfast 9.1, veryfast 11.0.
    "libx264": {"preset": "ultrafast", "crf": "25", "bf": "0", "rc-lookahead": "0", "threads": "1"},
    "libopenh264": {"threads": "1"},
    "mpeg4": {"bf": "0", "threads": "1"},
}
_BITS_PER_PIXEL = 0.15
"""For the encoders that aim at a rate instead of a quality."""


class VideoWriter:
    """One video file. Not safe for several threads; `close` may be called twice.

    The first frame decides the size (rounded up to even numbers, as the encoders want it); frames of another
    size, after a camera changed it, are fitted into that one. An older file of that name is emptied at once, and
    removed on `close` when no frame was written: it must not pass for what this run saw.

    Args:
        path: `.mp4`, `.m4v` or `.mkv`; its folder is made.
        fps: nominal rate, for the gap between two epochs and as a hint to players.
        encoders: which encoders to try, in order.

    Raises:
        AnnotationError: its name is no video's, or the file cannot be written there. Encoders are looked for
            when the first frame is written.
    """

    def __init__(self, path: Path, fps: float = 25.0, encoders: tuple[str, ...] = ENCODERS) -> None:
        self.path = path
        self.frames = 0
        self.encoder = ""
        self._encoders = encoders
        self._period = max(1, round(1 / fps / TIME_BASE))
        self._fps = Fraction(fps).limit_denominator(1001)
        self._container: av.container.OutputContainer | None = None
        self._stream: av.video.stream.VideoStream | None = None
        self._clock = _Timeline(self._period)
        self._failed = False
        self._closed = False
        if path.suffix.lower() not in _CONTAINERS:
            raise AnnotationError(f"{path}: a video is written as {', '.join(_CONTAINERS)}; name it so")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without O_NONBLOCK a pipe that nobody reads would be waited for.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
            os.close(os.open(path, flags, 0o644))
        except OSError as error:
            raise AnnotationError(f"{path}: cannot be written: {error.strerror}") from error

    def write(self, image: Image, media_ns: int, epoch: int = 0) -> None:
        """Appends one frame.

        Args:
            image: (H, W, 3) uint8, BGR.
            media_ns: the frame's time on its source's timeline.
            epoch: a new one starts a new timeline; the video continues one frame later.

        Raises:
            AnnotationError: none of the encoders exists, the disk is full, or the encoder failed; the writer is
                of no further use.
        """
        if self._failed or self._closed:
            raise AnnotationError(
                f"{self.path}: the video has failed before or is closed, and takes no more frames"
            )
        try:
            stream = self._stream or self._open(image)
            picture = av.VideoFrame.from_ndarray(fitted(image, stream.height, stream.width), format="bgr24")
            picture.pts = self._clock.ticks(media_ns, epoch)
            picture.time_base = TIME_BASE
            for packet in stream.encode(picture):
                assert self._container is not None
                self._container.mux(packet)
        except (av.error.FFmpegError, OSError) as error:
            self._failed = True
            raise self._failure(error) from error
        self.frames += 1

    def close(self) -> None:
        """Finishes the file.

        Raises:
            AnnotationError: what was still held back could not be written; not after `write` has raised.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._close_container()
        finally:
            if not self.frames and self.path.is_file():
                with contextlib.suppress(OSError):
                    self.path.resolve().unlink()

    @property
    def written(self) -> bool:
        """Whether there is a file with frames of this run; final after `close`."""
        return self.frames > 0 and self.path.is_file() and self.path.stat().st_size > 0

    def _close_container(self) -> None:
        container, stream = self._container, self._stream
        self._container = self._stream = None
        if container is None or stream is None:
            return
        try:
            if not self._failed:  # muxing again after a failed header ends in a segmentation fault
                for packet in stream.encode(None):
                    container.mux(packet)
        except (av.error.FFmpegError, OSError) as error:
            self._failed = True
            raise self._failure(error) from error
        finally:
            self._finish(container)

    def _open(self, image: Image) -> av.video.stream.VideoStream:
        kind = _CONTAINERS[self.path.suffix.lower()]
        options = {}
        if kind == "mp4" and av.library_versions["libavformat"][:2] >= _HYBRID_SINCE:
            options = {"movflags": "hybrid_fragmented+frag_keyframe"}
        container = av.open(str(self.path), "w", format=kind, options=options)
        name = next((name for name in self._encoders if name in available_encoders()), None)
        if name is None:
            container.close()
            raise AnnotationError(
                f"{self.path}: PyAV here has none of the encoders {', '.join(self._encoders)}"
            )
        stream = container.add_stream(name, rate=self._fps)
        assert isinstance(stream, av.video.stream.VideoStream)
        stream.width, stream.height = image.shape[1] + image.shape[1] % 2, image.shape[0] + image.shape[0] % 2
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = TIME_BASE
        stream.codec_context.gop_size = max(1, round(2 * self._fps))
        stream.bit_rate = round(stream.width * stream.height * self._fps * _BITS_PER_PIXEL)
        stream.options = dict(_ENCODER_OPTIONS.get(name, {}))
        self._container, self._stream, self.encoder = container, stream, name
        return stream

    def _finish(self, container: av.container.OutputContainer) -> None:
        try:
            container.close()
        except (av.error.FFmpegError, OSError) as error:
            if not self._failed:
                self._failed = True
                raise self._failure(error) from error

    def _failure(self, error: Exception) -> AnnotationError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return AnnotationError(f"{self.path}: the video could not be written: {reason}")


def available_encoders() -> frozenset[str]:
    """Which of `ENCODERS` the FFmpeg inside PyAV can encode with."""
    found = []
    for name in ENCODERS:
        try:
            av.Codec(name, "w")
        except (ValueError, av.error.FFmpegError):
            continue
        found.append(name)
    return frozenset(found)


def fitted(image: Image, height: int, width: int) -> Image:
    """`image` at (height, width): unchanged, one edge pixel repeated, or scaled and centred on black."""
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return np.ascontiguousarray(image)
    if 0 <= height - rows <= 1 and 0 <= width - columns <= 1:
        bottom, right = height - rows, width - columns
        return np.asarray(cv2.copyMakeBorder(image, 0, bottom, 0, right, cv2.BORDER_REPLICATE), np.uint8)
    ratio = min(height / rows, width / columns)
    inner = (max(1, round(columns * ratio)), max(1, round(rows * ratio)))
    canvas = np.zeros((height, width, 3), np.uint8)
    top, left = (height - inner[1]) // 2, (width - inner[0]) // 2
    canvas[top : top + inner[1], left : left + inner[0]] = cv2.resize(
        image, inner, interpolation=cv2.INTER_AREA
    )
    return canvas


class _Timeline:
    """Source times of several epochs → ticks of one video, always increasing."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._epoch: int | None = None
        self._start_ns = 0
        self._offset = 0
        self._last = -1

    def ticks(self, media_ns: int, epoch: int) -> int:
        if epoch != self._epoch:
            self._offset = 0 if self._epoch is None else self._last + self._period
            self._epoch, self._start_ns = epoch, media_ns
        ticks = self._offset + round((media_ns - self._start_ns) * TIME_BASE.denominator / 1e9)
        self._last = max(ticks, self._last + 1)
        return self._last
