"""A decoded FFmpeg frame as an upright BGR picture: range, matrix and rotation right, with few copies.

Three findings shaped this. PyAV before 17 ignores a frame's colour matrix unless it is told (a BT.709 clip was
off by 13 levels on average), so it is told. And `to_ndarray` copies what swscale has just written: a view of
the plane halves the conversion. And a frame whose `side_data` was asked for refers to itself, so its buffers wait
for the garbage collector: 130 page faults a frame instead of none (docs/decisions/0030-decoding-with-pyav.md).
"""

from typing import Any

import av
import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from edge_runtime.sources.frame import Image

# AVCOL_SPC_* (ITU-T H.273 MatrixCoefficients) to SWS_CS_*; an unknown one is BT.601, as FFmpeg takes it.
_SWS_MATRIX = {1: 1, 4: 4, 5: 5, 6: 5, 7: 7, 9: 9, 10: 9}
_SWS_DEFAULT = 5
_MPEG_RANGE, _JPEG_RANGE = 1, 2

# One thread: the pictures are small, and pool threads of every source would compete with the model.
_ONE_THREAD: dict[str, Any] = {"threads": 1} if int(av.__version__.split(".")[0]) >= 17 else {}

Matrix = tuple[int, int, int, int]
UPRIGHT: Matrix = (1, 0, 0, 1)


class ToBgr:
    """Converts the frames of one stream; keeps swscale's tables between them.

    Attributes:
        matrix: display matrix of the stream, as its last key frame had it: it does not turn between two.
    """

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()
        self._begun = False
        self.matrix: Matrix = UPRIGHT

    def __call__(self, frame: VideoFrame) -> Image:
        """(H, W, 3) uint8 BGR, upright, C-contiguous, writable and owned by the caller.

        Raises:
            av.error.FFmpegError, ValueError: swscale cannot convert the frame's pixel format.
        """
        colours: dict[str, int] = {}
        if not frame.format.is_rgb:
            full = frame.format.name.startswith("yuvj") or int(frame.color_range) == _JPEG_RANGE
            colours = {
                "src_colorspace": _SWS_MATRIX.get(int(frame.colorspace), _SWS_DEFAULT),
                "dst_colorspace": _SWS_DEFAULT,
                "src_color_range": _JPEG_RANGE if full else _MPEG_RANGE,
                "dst_color_range": _MPEG_RANGE,
            }
        converted = self._reformatter.reformat(frame, format="bgr24", **colours, **_ONE_THREAD)
        if frame.key_frame or not self._begun:
            self.matrix = display_matrix(frame)
            self._begun = True
        return upright(_view(converted), self.matrix)


def _view(frame: VideoFrame) -> Image:
    """The plane's memory as an array, copied only where FFmpeg padded the rows."""
    plane = frame.planes[0]
    rows = np.frombuffer(memoryview(plane), dtype=np.uint8)[: frame.height * plane.line_size]
    picture = rows.reshape(frame.height, plane.line_size)[:, : frame.width * 3]
    return np.ascontiguousarray(picture).reshape(frame.height, frame.width, 3)


def display_matrix(frame: VideoFrame) -> Matrix:
    """The signs of the linear part (a, b, c, d) of a frame's display matrix, `UPRIGHT` where it has none.

    A stored point (x, y) is shown at (a x + c y, b x + d y): ISO/IEC 14496-12, `tkhd`; 16.16 fixed point, in
    FFmpeg's order a b u c d v x y w. A rotation that is no multiple of 90 degrees takes the nearest one.
    """
    side_data: Any = frame.side_data  # the stubs take its items for strings
    for data in side_data:
        if data.type.name == "DISPLAYMATRIX":
            a, b, _, c, d = np.frombuffer(bytes(data), dtype=np.int32)[:5].tolist()
            if abs(a) + abs(d) >= abs(b) + abs(c):
                return (_sign(a), 0, 0, _sign(d))
            return (0, _sign(b), _sign(c), 0)
    return UPRIGHT


def _sign(value: int) -> int:
    return -1 if value < 0 else 1


def rotation_of(matrix: Matrix) -> int:
    """Degrees, counter-clockwise, by which a matrix turns a picture; for mirror images whether it lies down."""
    turns = {(1, 0, 0, 1): 0, (0, -1, 1, 0): 90, (-1, 0, 0, -1): 180, (0, 1, -1, 0): 270}
    return turns.get(matrix, 0 if matrix[0] else 90)


def upright(image: Image, matrix: Matrix) -> Image:
    """`image` as the matrix wants it shown; the same array where nothing is to be done."""
    a, b, c, d = matrix
    if matrix == UPRIGHT:
        return image
    flip_x, flip_y = (a < 0, d < 0) if a else (c < 0, b < 0)
    if not a:
        image = np.asarray(cv2.transpose(image), dtype=np.uint8)
    if flip_x and flip_y:
        return np.asarray(cv2.flip(image, -1), dtype=np.uint8)
    if flip_x or flip_y:
        return np.asarray(cv2.flip(image, 1 if flip_x else 0), dtype=np.uint8)
    return image
