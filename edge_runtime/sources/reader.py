"""The seam between one source's thread and what it reads: files, cameras, pipelines, drawn scenes."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from edge_runtime.errors import SourceError
from edge_runtime.sources.frame import Image


class SourceRefused(SourceError):
    """Trying again cannot help: no such file, not a video, a part that is not installed."""


class SourceUnauthorized(SourceError):
    """The camera refuses the user name or password."""


class SourceSilent(SourceError):
    """The source is open and gives nothing within its time."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What is known about an open stream.

    Attributes:
        width, height: pixels after rotation.
        codec: FFmpeg's name of the codec, or what stands for it.
        fps: declared frames a second; None where the stream does not say.
        rotation: degrees, counter-clockwise, by which the stored pictures are turned to stand upright.
        frames: declared number of frames; None where the stream does not say, or has no end.
    """

    width: int
    height: int
    codec: str
    fps: float | None = None
    rotation: int = 0
    frames: int | None = None


@dataclass(frozen=True, slots=True)
class Grab:
    """One picture as it comes from a reader.

    Attributes:
        image: (H, W, 3) uint8 BGR, upright, C-contiguous, writable and not shared with anyone.
        pts_ns: presentation stamp in nanoseconds on the stream's own origin; None where it has none.
        capture_ns: CLOCK_MONOTONIC when it was captured, as near as can be known.
        preroll: its age is unknown, because it was buffered while the stream was opened.
    """

    image: Image
    pts_ns: int | None
    capture_ns: int
    preroll: bool = False


@dataclass(slots=True)
class ReadCounts:
    """What a reader counts besides the pictures that it gives.

    Attributes:
        drops: packets that gave no picture, by `DropCause`.
        damaged: pictures given although the decoder says that parts of them are guessed.
    """

    drops: Counter[str] = field(default_factory=Counter)
    damaged: int = 0


class Reader(Protocol):
    """An open stream. Made by opening it, used by one thread, closed exactly once."""

    facts: StreamFacts
    counts: ReadCounts
    warning: str | None
    """What a person should know about a stream that ended: a file that is cut off."""

    def read(self) -> Grab | None:
        """The next picture, or None at the end.

        Raises:
            SourceSilent: nothing came within the stream's time.
            SourceError: the stream broke.
        """
        ...

    def close(self) -> None:
        """Give back every thread, descriptor and buffer."""
        ...
