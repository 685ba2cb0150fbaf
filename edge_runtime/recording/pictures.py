"""Frames of a recording as files: lossless, because a model sees every difference."""

from collections import deque
from pathlib import Path

import cv2
import numpy as np

from edge_runtime.durable import NO_ROOM
from edge_runtime.recording.errors import RecordingError
from edge_runtime.recording.folder import PICTURES
from edge_runtime.sources.frame import Image

_FASTEST = [cv2.IMWRITE_PNG_COMPRESSION, 1]
"""Half as many bytes as pixels; more effort saves a tenth of them and takes three times as long."""


class PictureFolder:
    """The pictures of one part. Used from one thread.

    Args:
        part: folder of the part.
        most_bytes: the oldest make room beyond them; None: the caller keeps to its bytes.
    """

    def __init__(self, part: Path, most_bytes: int | None) -> None:
        self._folder, self._most = part / PICTURES, most_bytes
        self._kept: deque[tuple[Path, int]] = deque()
        self._bytes = 0

    def encode(self, image: Image) -> bytes:
        """A frame as PNG.

        Args:
            image: (H, W, 3) uint8, BGR.
        """
        done, data = cv2.imencode(".png", image, _FASTEST)
        if not done:
            raise RecordingError("a frame cannot be encoded as PNG")
        return data.tobytes()

    def keep(self, number: int, data: bytes) -> str:
        """Write a picture; its name in the folder.

        Raises:
            OSError: the disk does not take it; nothing of it is left.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{number:012d}.png"
        while True:
            try:
                path.write_bytes(data)
                break
            except OSError as error:
                path.unlink(missing_ok=True)
                if error.errno not in NO_ROOM or not self._make_room():
                    raise
        self._kept.append((path, len(data)))
        self._bytes += len(data)
        while self._most is not None and self._bytes > self._most and len(self._kept) > 1:
            self._make_room()
        return path.name

    def _make_room(self) -> bool:
        """Give up the oldest picture; False where there is none, or where none may be given up."""
        if self._most is None or not self._kept:
            return False
        oldest, size = self._kept.popleft()
        oldest.unlink(missing_ok=True)
        self._bytes -= size
        return True


def read_picture(part: Path, name: str) -> Image | None:
    """A picture of a part; None where it is not there any more.

    Returns:
        (H, W, 3) uint8, BGR.

    Raises:
        RecordingError: the name is none of a picture, or the file is damaged.
    """
    if Path(name).name != name or not name.endswith(".png"):
        raise RecordingError(f"{part}: a record names a picture outside of the recording")
    path = part / PICTURES / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    if image is None:
        raise RecordingError(f"{path} is damaged: replay the detections instead of the frames")
    return image.astype(np.uint8, copy=False)
