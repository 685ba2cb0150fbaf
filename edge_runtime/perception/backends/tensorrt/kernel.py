"""The kernel that prepares a picture on the GPU: its source, the shape of its launch, its arguments.

One launch writes one image of the model's input, padding included. It does what `perception.preprocess` does on the
CPU, with the geometry of `perception.letterbox` and the arithmetic of OpenCV's bilinear resize, and differs from it
by at most one level of 255; NV12 is converted as `cv2.cvtColor` does (docs/decisions/0202).
The source includes no header, so that NVRTC needs no include path on a device that has no CUDA toolkit.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from edge_runtime.errors import BackendError, ConfigError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.letterbox import Letterbox

SOURCE: Final = (
    files("edge_runtime.perception.backends.tensorrt").joinpath("kernel.cu").read_text(encoding="utf-8")
)
"""CUDA C++; with -DHOST it is C++ whose functions of the same names run all threads of a launch."""

FUNCTIONS: Final = ("prepare_bgr", "prepare_nv12")

Shape3 = tuple[int, int, int]
Matrix = Literal["bt601", "bt709"]

_BLOCK: Final[Shape3] = (32, 8, 1)
"""A warp writes 32 neighbours of one row: whole sectors of memory in every layout and dtype."""

_LARGEST_SIDE: Final = 65_535
"""Of a picture: a position times a side of the largest input (8,192) must fit 32 bits."""

_DTYPES: Final[Mapping[str, int]] = {"float32": 0, "float16": 1, "uint8": 2}
_MATRICES: Final[Mapping[Matrix, int]] = {"bt601": 601, "bt709": 709}


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePicture:
    """A picture in device memory: BGR, or NV12 where it has a chroma address.

    Attributes:
        address: of the first row; BGR with 3 bytes a pixel, or the luma with 1.
        pitch: bytes from row to row.
        height, width: in pixels; NV12 may be odd.
        chroma_address: of NV12's rows of (U, V) pairs, (height + 1) // 2 rows of (width + 1) // 2 pairs; 0 is BGR.
        chroma_pitch: bytes from one of these rows to the next.
        matrix: of NV12, which is taken to be of limited range (16..235). BT.601 unless the stream says otherwise,
            as FFmpeg and `cv2.cvtColor` take it, so that a picture looks the same on either road.
    """

    address: int
    pitch: int
    height: int
    width: int
    chroma_address: int = 0
    chroma_pitch: int = 0
    matrix: Matrix = "bt601"

    @property
    def function(self) -> str:
        """Which of `FUNCTIONS` reads it."""
        return "prepare_nv12" if self.chroma_address else "prepare_bgr"


def launch_shape(spec: InputSpec) -> tuple[Shape3, Shape3]:
    """Grid and block that give every pixel of the input a thread."""
    across, down, _ = _BLOCK
    return (-(-spec.width // across), -(-spec.height // down), 1), _BLOCK


def arguments(spec: InputSpec, box: Letterbox, picture: DevicePicture, target: int) -> list[Any]:
    """The kernel's arguments in the order of its parameters, as ctypes values.

    Args:
        spec: the model's input.
        box: `letterbox.fit(spec, picture.height, picture.width)`.
        picture: what is read.
        target: device address of the image's place in the input, 3 * height * width elements of its dtype.

    Raises:
        BackendError: sizes that contradict each other, rows that overlap, or a picture that is too large.
        ConfigError: the input's std holds a zero.
    """
    _check(spec, box, picture)
    if not all(spec.std):
        raise ConfigError("the input's std holds a zero, which pixels cannot be divided by")
    source: list[Any] = [ctypes.c_void_p(picture.address), ctypes.c_int(picture.pitch)]
    if picture.chroma_address:
        source += [ctypes.c_void_p(picture.chroma_address), ctypes.c_int(picture.chroma_pitch)]
        source += [ctypes.c_int(_MATRICES[picture.matrix])]
    source += [ctypes.c_int(picture.height), ctypes.c_int(picture.width)]
    geometry = (box.height, box.width, box.top, box.left, box.inner_height, box.inner_width)
    form = (spec.layout == "nchw", _DTYPES[spec.dtype], spec.color == "rgb", spec.pad_value)
    factors = [spec.scale / deviation for deviation in spec.std]
    shifts = [-mean / deviation for mean, deviation in zip(spec.mean, spec.std, strict=True)]
    return [
        *source,
        ctypes.c_void_p(target),
        *(ctypes.c_int(value) for value in (*geometry, *form)),
        *(ctypes.c_float(value) for value in (*factors, *shifts)),
    ]


def _check(spec: InputSpec, box: Letterbox, picture: DevicePicture) -> None:
    height, width = picture.height, picture.width
    if not (1 <= height <= _LARGEST_SIDE and 1 <= width <= _LARGEST_SIDE):
        raise BackendError(
            f"a picture of {height}x{width} pixels cannot be prepared on the GPU: "
            f"its sides must be 1 to {_LARGEST_SIDE}"
        )
    if (box.source_height, box.source_width) != (height, width):
        raise BackendError(
            f"the geometry is for a picture of {box.source_height}x{box.source_width} pixels, "
            f"but the picture has {height}x{width}: call letterbox.fit with its size"
        )
    if (box.height, box.width) != (spec.height, spec.width):
        raise BackendError(
            f"the geometry is for an input of {box.height}x{box.width}, "
            f"but the model's is {spec.height}x{spec.width}: call letterbox.fit with its input"
        )
    if picture.chroma_address:
        rows = {"pitch": (picture.pitch, width), "chroma_pitch": (picture.chroma_pitch, (width + 1) // 2 * 2)}
    else:
        rows = {"pitch": (picture.pitch, width * 3)}
    for name, (pitch, least) in rows.items():
        if pitch < least:
            raise BackendError(f"{name} is {pitch} bytes, but a row of {width} pixels takes {least}")
