"""One image with when and where it was captured."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded image.

    Attributes:
        image: (H, W, 3) uint8, BGR, rotation applied, privacy masks already blacked out.
        source: name of the camera.
        epoch: 0-based; a new one begins after each reconnect, pts reset or size change.
        sequence: 0-based within the epoch; counts decoded frames, so a gap is a drop.
        capture_ns: CLOCK_MONOTONIC when the frame was captured (live), or taken by the consumer for whom every
            frame of a recording waits.
        media_ns: nanoseconds on the source's own timeline since its epoch began, never decreasing within it:
            pts where the stream has them, else measured arrival. Rules measure time on this one.
        dark: the image carries no usable picture (lens covered, no light): not the same as nothing seen.
        frozen: identical content has been delivered for longer than the source allows.
        decode_ns: what reading, decoding and masking this image took, without waiting for a camera.
    """

    image: Image
    source: str
    epoch: int
    sequence: int
    capture_ns: int
    media_ns: int
    dark: bool = False
    frozen: bool = False
    decode_ns: int = 0

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.image.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.image.shape[1])
