"""A drawn scene with moving boxes: every frame follows from the seed and its number alone.

For tests, benchmarks and soak runs. The background is two fixed textures shown in turn, as sensor noise would
keep a still picture alive.
"""

import threading

import cv2
import numpy as np
import numpy.typing as npt

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config.source import SyntheticSource
from edge_runtime.errors import SourceError
from edge_runtime.sources.frame import Image
from edge_runtime.sources.mailbox import DropCause
from edge_runtime.sources.reader import Grab, ReadCounts, SourceSilent, StreamFacts

_TEXTURE = 16  # pixels a texture cell measures


class SyntheticScene:
    """The scene as a pure function of the frame number.

    Args:
        width: pixels.
        height: pixels.
        fps: frames a second; objects move by pixels a second.
        objects: how many boxes.
        seed: everything follows from it.
    """

    def __init__(self, width: int, height: int, fps: float, objects: int, seed: int) -> None:
        self.width, self.height = width, height
        self._interval_s = 1.0 / fps
        rng = np.random.default_rng(seed)
        cells = rng.integers(64, 160, (-(-height // _TEXTURE), -(-width // _TEXTURE), 3), dtype=np.uint8)
        large = np.asarray(cv2.resize(cells, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
        noise = rng.integers(0, 4, (height, width, 1), dtype=np.uint8)
        self._backgrounds: tuple[Image, Image] = (large, large + noise)
        span = np.array([width, height], dtype=np.float64)
        self._size = np.maximum(rng.uniform(0.05, 0.25, (objects, 2)) * span, 4.0)
        self._start = rng.uniform(0.0, 2.0, (objects, 2))
        self._speed = rng.uniform(0.05, 0.4, (objects, 2)) * rng.choice([-1.0, 1.0], (objects, 2))
        self._colour = rng.integers(0, 256, (objects, 3), dtype=np.uint8)

    def boxes(self, index: int) -> npt.NDArray[np.float32]:
        """Where the boxes are in frame `index`: (N, 4) xyxy float32 in whole pixels, within the frame."""
        room = np.array([self.width, self.height]) - self._size
        phase = np.mod(self._start + self._speed * index * self._interval_s, 2.0)
        corner = np.floor(np.where(phase > 1.0, 2.0 - phase, phase) * room)  # to and fro between the walls
        return np.concatenate([corner, corner + np.floor(self._size)], axis=1).astype(np.float32)

    def draw(self, index: int) -> Image:
        """Frame `index`, (H, W, 3) uint8 BGR; later boxes cover earlier ones."""
        image: Image = self._backgrounds[index % 2].copy()
        for (left, top, right, bottom), colour in zip(
            self.boxes(index).astype(int).tolist(), self._colour, strict=True
        ):
            image[top:bottom, left:right] = colour
        return image


class SyntheticReader:
    """Draws the scene; as a camera at its own pace, else as fast as it is read.

    Args:
        config: what to draw.
        clock: paces a camera and stamps captures.
        cancel: ends waiting.
        drawn: frames drawn by earlier connections: a camera goes on, it does not begin anew.

    Raises:
        SourceError: the camera is dead.
    """

    def __init__(
        self, config: SyntheticSource, clock: Clock, cancel: threading.Event, drawn: int = 0
    ) -> None:
        if config.dead_after is not None and drawn >= config.dead_after:
            raise SourceError(f"synthetic camera is dead: its cable was cut after {config.dead_after} frames")
        self._config = config
        self._clock = clock
        self._cancel = cancel
        self._scene = SyntheticScene(config.width, config.height, config.fps, config.objects, config.seed)
        self._zero_ns = clock.monotonic_ns()
        self._first = drawn
        self.drawn = drawn
        self.counts = ReadCounts()
        self.warning: str | None = None
        self.facts = StreamFacts(config.width, config.height, "drawn", config.fps, frames=config.frames)

    def read(self) -> Grab | None:
        """The next frame, when it is due."""
        config = self._config
        if config.frames is not None and self.drawn >= config.frames:
            return None
        if config.dead_after is not None and self.drawn >= config.dead_after:
            if self._cancel.wait(config.stall_after):
                return None
            raise SourceSilent(f"synthetic camera gave no picture for {config.stall_after:g} s")
        capture_ns = self._clock.monotonic_ns()
        if config.pacing == "camera":
            self._skip_what_was_missed()
            due_ns = self._zero_ns + int((self.drawn - self._first) * NS_PER_S / config.fps)
            while (left_ns := due_ns - self._clock.monotonic_ns()) > 0:
                if self._cancel.wait(left_ns / NS_PER_S):
                    return None
            capture_ns = due_ns
        media_ns = int((self.drawn - self._first) * NS_PER_S / config.fps)
        image = self._scene.draw(self.drawn)
        self.drawn += 1
        return Grab(image, media_ns, capture_ns)

    def _skip_what_was_missed(self) -> None:
        """A camera does not wait: frames whose time passed longer ago than a frame may be old were never drawn."""
        late_s = (self._clock.monotonic_ns() - self._zero_ns) / NS_PER_S - (
            self.drawn - self._first
        ) / self._config.fps
        if late_s > self._config.max_age:
            missed = int(late_s * self._config.fps)
            self.counts.drops[DropCause.BEHIND.value] += missed
            self.drawn += missed

    def close(self) -> None:
        """Nothing is open."""
