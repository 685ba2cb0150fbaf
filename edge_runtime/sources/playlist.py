"""Clips played one after another on one timeline, scaled to one size: a declared composition.

Clips keep their shape: what does not fit the size is letterboxed in black, never stretched, because a model
must see faces and cars in the proportions in which they were filmed.
"""

import threading
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path

import cv2
import numpy as np

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config.source import PlaylistItem, PlaylistSource
from edge_runtime.sources.address import file_address
from edge_runtime.sources.frame import Image
from edge_runtime.sources.pyav import PyavReader
from edge_runtime.sources.reader import Grab, ReadCounts, SourceRefused, StreamFacts
from edge_runtime.sources.timeline import Timeline

_DEFAULT_FPS = 25.0  # the length of a clip's last frame, where nothing else tells


class PlaylistReader:
    """Reads the clips in turn; opening it opens the first and checks that the others exist.

    With `fps` every picture of the composition is that far from the next, each showing the newest frame of
    its clip; without, every frame keeps its own distance to the one before.

    Raises:
        SourceRefused: a clip cannot be played, or nothing of it lies within its cut.
    """

    def __init__(self, config: PlaylistSource, base: Path, clock: Clock, cancel: threading.Event) -> None:
        self._config = config
        self._clock = clock
        self._cancel = cancel
        self._addresses = [file_address(clip.path, base) for clip in config.clips]
        self._end_ns = 0  # of the clips played so far
        self.counts = ReadCounts()
        self.warning: str | None = None
        self.facts = StreamFacts(config.width, config.height, "playlist", fps=config.fps)
        self._pictures = self._resampled(config.fps) if config.fps else self._played()
        self._ahead = deque([next(self._pictures)])  # a composition that cannot start is refused at once

    def read(self) -> Grab | None:
        """The next picture."""
        if self._cancel.is_set():
            return None
        found = self._ahead.popleft() if self._ahead else next(self._pictures, None)
        if found is None:
            return None
        image, media_ns = found
        return Grab(image, media_ns, self._clock.monotonic_ns())

    def _played(self) -> Generator[tuple[Image, int], None, None]:
        """Pictures of all clips with their time on the composition's timeline."""
        for index, clip in enumerate(self._config.clips):
            self._end_ns = yield from self._clip(index, clip, self._end_ns)

    def _clip(
        self, index: int, clip: PlaylistItem, offset_ns: int
    ) -> Generator[tuple[Image, int], None, int]:
        """One clip; returns where on the composition's timeline it ends."""
        begin_ns = int(clip.start * NS_PER_S)
        cut_ns = None if clip.duration is None else begin_ns + int(clip.duration * NS_PER_S)
        reader = PyavReader(self._addresses[index], self._clock, self._cancel)
        frame_ns = int(NS_PER_S / (reader.facts.fps or _DEFAULT_FPS))
        before_ns: int | None = None
        end_ns = 0
        given = 0
        try:
            for image, position_ns in _positions(reader, frame_ns):
                if cut_ns is not None and position_ns >= cut_ns:
                    end_ns = cut_ns
                    break
                if before_ns is not None and position_ns > before_ns:
                    frame_ns = position_ns - before_ns  # measured: a declared rate may be wrong
                before_ns, end_ns = position_ns, position_ns + frame_ns
                if position_ns >= begin_ns:
                    given += 1
                    yield self._fitted(image), offset_ns + position_ns - begin_ns
        finally:
            self.counts.drops.update(reader.counts.drops)
            self.counts.damaged += reader.counts.damaged
            self.warning = reader.warning or self.warning
            reader.close()
        if not given and not self._cancel.is_set():
            raise SourceRefused(f"clips[{index}]: {clip.path} has no frame after {clip.start:g} s")
        return offset_ns + max(end_ns - begin_ns, 0)

    def _resampled(self, fps: float) -> Generator[tuple[Image, int], None, None]:
        """The composition at a constant rate: at each tick the newest frame at or before it."""
        tick = 0
        shown: Image | None = None
        for image, media_ns in self._played():
            while shown is not None and (due_ns := int(tick * NS_PER_S / fps)) < media_ns:
                yield shown.copy(), due_ns  # it may be shown again, and its owner may write on it
                tick += 1
            shown = image
        while shown is not None and (due_ns := int(tick * NS_PER_S / fps)) < self._end_ns:
            yield shown.copy(), due_ns
            tick += 1

    def _fitted(self, image: Image) -> Image:
        return letterboxed(image, self._config.width, self._config.height)

    def close(self) -> None:
        """Close the clip that is open."""
        self._pictures.close()


def _positions(reader: PyavReader, frame_ns: int) -> Iterator[tuple[Image, int]]:
    """A clip's pictures with their time since its beginning, also where its stamps are missing or reset."""
    timeline = Timeline(live=False, interval_ns=frame_ns)
    epoch = base_ns = position_ns = 0
    while (grab := reader.read()) is not None:
        stamp = timeline.stamp(grab.pts_ns, grab.capture_ns, (0, 0))
        if stamp.epoch != epoch:
            epoch, base_ns = stamp.epoch, position_ns + frame_ns
        position_ns = base_ns + stamp.media_ns
        yield grab.image, position_ns


def letterboxed(image: Image, width: int, height: int) -> Image:
    """`image` scaled to fit into width x height in its own shape, centred on black."""
    rows, columns = image.shape[:2]
    if (columns, rows) == (width, height):
        return image
    scale = min(width / columns, height / rows)
    size = (max(round(columns * scale), 1), max(round(rows * scale), 1))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    scaled = np.asarray(cv2.resize(image, size, interpolation=way), dtype=np.uint8)
    if size == (width, height):
        return scaled
    canvas = np.zeros((height, width, 3), dtype=np.uint8)
    top, left = (height - size[1]) // 2, (width - size[0]) // 2
    canvas[top : top + size[1], left : left + size[0]] = scaled
    return canvas
