"""A folder of pictures, in name order, one after another on a timeline of their own."""

import threading
from pathlib import Path

import cv2
import numpy as np

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.sources.frame import Image
from edge_runtime.sources.mailbox import DropCause
from edge_runtime.sources.reader import Grab, ReadCounts, SourceRefused, StreamFacts

SUFFIXES = frozenset(
    {".avif", ".bmp", ".jpeg", ".jpg", ".jp2", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)


class ImagesReader:
    """Reads a folder; a file that is no picture is skipped and counted.

    Raises:
        SourceRefused: there is no such folder, or no picture in it.
    """

    def __init__(
        self, path: str, base: Path, interval_s: float, clock: Clock, cancel: threading.Event
    ) -> None:
        folder = base / Path(path).expanduser()
        if not folder.exists():
            raise SourceRefused(f"{path} does not exist (looked for {folder.absolute()})")
        if not folder.is_dir():
            raise SourceRefused(f"{path} is not a folder; kind: file plays one file")
        try:
            entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
        except OSError as error:
            raise SourceRefused(f"{path} cannot be read: {error.strerror}") from None
        self._files = [entry for entry in entries if entry.suffix.lower() in SUFFIXES and entry.is_file()]
        if not self._files:
            raise SourceRefused(f"{path} holds no picture ({', '.join(sorted(SUFFIXES))})")
        self._path = path
        self._interval_ns = int(interval_s * NS_PER_S)
        self._clock = clock
        self._cancel = cancel
        self._next = 0
        self._given = 0
        self.counts = ReadCounts()
        self.warning: str | None = None
        self.facts = StreamFacts(0, 0, "images", fps=1.0 / interval_s, frames=len(self._files))

    def read(self) -> Grab | None:
        """The next picture that can be decoded."""
        while self._next < len(self._files) and not self._cancel.is_set():
            index, self._next = self._next, self._next + 1
            image = read_picture(self._files[index])
            if image is None:
                self.counts.drops[DropCause.CORRUPT.value] += 1
                continue
            self._given += 1
            height, width = image.shape[:2]
            self.facts = StreamFacts(width, height, "images", self.facts.fps, frames=len(self._files))
            return Grab(image, index * self._interval_ns, self._clock.monotonic_ns())
        if not self._given and not self._cancel.is_set():
            raise SourceRefused(f"{self._path} holds {len(self._files)} files, and none of them is a picture")
        skipped = len(self._files) - self._given
        if skipped and self._next == len(self._files):
            self.warning = (
                f"{self._path}: {skipped} of {len(self._files)} files are no pictures and were skipped"
            )
        return None

    def close(self) -> None:
        """Nothing stays open between pictures."""


def read_picture(file: Path) -> Image | None:
    """A picture as BGR uint8, upright by its EXIF tag, whatever its depth or channels; None if it is none."""
    try:
        data = np.frombuffer(file.read_bytes(), dtype=np.uint8)
        image = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except (OSError, cv2.error):
        return None
    return None if image is None else np.asarray(image, dtype=np.uint8)
