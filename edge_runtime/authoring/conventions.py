"""How pictures are usually prepared for each kind of head: nothing in an ONNX file says it.

Colour order, scale and resizing are agreed between a training repository and its users. The table names the
repository that each row comes from. `variants` are the other ways that models of a kind are known to be fed;
an import tries them on the reference scenes and says what it saw.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.qualification.sizes import ImageInput, Size

_Triple = tuple[float, float, float]

_ZEROS: Final[_Triple] = (0.0, 0.0, 0.0)
_ONES: Final[_Triple] = (1.0, 1.0, 1.0)
_IMAGENET_MEAN: Final[_Triple] = (0.485, 0.456, 0.406)
_IMAGENET_STD: Final[_Triple] = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Convention:
    """One way to feed a model; fields as in `InputSpec`.

    Attributes:
        source: where the convention comes from.
    """

    color: Literal["rgb", "bgr"]
    scale: float
    mean: _Triple
    std: _Triple
    resize: Literal["letterbox", "stretch"]
    anchor: Literal["center", "top_left"]
    pad_value: int
    source: str

    def spec(self, image: ImageInput, size: Size, *, dynamic: bool, stride: int, batch: int) -> InputSpec:
        """The manifest's input section."""
        return InputSpec(
            name=image.name,
            height=size[0],
            width=size[1],
            dynamic=dynamic,
            stride=stride,
            batch=batch,
            layout="nchw" if image.layout == "nchw" else "nhwc",
            dtype="uint8" if image.dtype == "uint8" else "float16" if image.dtype == "float16" else "float32",
            color=self.color,
            scale=self.scale,
            mean=self.mean,
            std=self.std,
            resize=self.resize,
            anchor=self.anchor,
            pad_value=self.pad_value,
            size_input=image.size_input,
        )


_ULTRALYTICS: Final = Convention(
    "rgb", 1 / 255, _ZEROS, _ONES, "letterbox", "center", 114, "ultralytics: RGB / 255, letterbox"
)
_YOLOX: Final = Convention(
    "bgr",
    1.0,
    _ZEROS,
    _ONES,
    "letterbox",
    "top_left",
    114,
    "YOLOX since 0.1.1: BGR 0..255, letterbox top left",
)
_NANODET: Final = Convention(
    "bgr",
    1.0,
    (103.53, 116.28, 123.675),
    (57.375, 57.12, 58.395),
    "stretch",
    "center",
    114,
    "RangiLyu/nanodet: BGR, ImageNet mean and deviation, plain resize",
)
_IMAGENET_RGB: Final = Convention(
    "rgb",
    1 / 255,
    _IMAGENET_MEAN,
    _IMAGENET_STD,
    "stretch",
    "center",
    114,
    "RGB, ImageNet mean and deviation",
)
_DETR: Final = Convention(
    "rgb", 1 / 255, _ZEROS, _ONES, "stretch", "center", 114, "RT-DETR, D-FINE, DEIM: RGB / 255, plain resize"
)
_SSD: Final = Convention(
    "rgb", 1 / 127.5, _ONES, _ONES, "stretch", "center", 114, "TensorFlow Object Detection API: RGB, -1..1"
)

CONVENTIONS: Final[dict[str, tuple[Convention, ...]]] = {
    "yolov5": (_ULTRALYTICS,),
    "yolov8": (_ULTRALYTICS,),
    "yolox": (
        _YOLOX,
        replace(
            _IMAGENET_RGB,
            resize="letterbox",
            anchor="top_left",
            source="YOLOX 0.1.0: RGB, ImageNet mean and deviation, letterbox top left",
        ),
    ),
    "nanodet": (_NANODET,),
    "picodet": (replace(_IMAGENET_RGB, source="PaddleDetection: RGB, ImageNet mean and deviation"), _NANODET),
    "fastestdet": (
        Convention(
            "bgr", 1 / 255, _ZEROS, _ONES, "stretch", "center", 114, "FastestDet: BGR / 255, plain resize"
        ),
    ),
    "ssd": (_SSD, _DETR),
    "torchvision": (replace(_DETR, source="torchvision: RGB / 255"), _IMAGENET_RGB),
    "detr": (_DETR, _IMAGENET_RGB),
    "centerface": (
        Convention("rgb", 1.0, _ZEROS, _ONES, "letterbox", "center", 0, "CenterFace: RGB 0..255"),
    ),
    "ultraface": (
        Convention(
            "rgb", 1.0, (127.0,) * 3, (128.0,) * 3, "stretch", "center", 0, "UltraFace: RGB, (p - 127) / 128"
        ),
    ),
    "yunet": (
        Convention("bgr", 1.0, _ZEROS, _ONES, "letterbox", "center", 0, "opencv_zoo YuNet: BGR 0..255"),
    ),
}
"""By kind of head, the usual one first."""


def usual(kind: str, dtype: str) -> Convention:
    """The convention that models of this kind are usually fed by.

    Args:
        kind: key of `CONVENTIONS`.
        dtype: of the input; an 8-bit input takes the pixels as they are.
    """
    convention = CONVENTIONS[kind][0]
    return _plain(convention) if dtype == "uint8" else convention


def variants(kind: str, dtype: str) -> Iterator[Convention]:
    """Other ways to feed a model of this kind: known ones, then red and blue exchanged, then another scale."""
    first = usual(kind, dtype)
    yield from CONVENTIONS[kind][1:] if dtype != "uint8" else ()
    yield swapped(first)
    if dtype != "uint8":
        scaled = replace(first, scale=1.0, mean=_ZEROS, std=_ONES, source="pixels as they are, 0..255")
        if first.scale == 1.0 and first.mean == _ZEROS:
            scaled = replace(first, scale=1 / 255, source="pixels / 255")
        yield scaled
        yield swapped(scaled)


def swapped(convention: Convention) -> Convention:
    """With red and blue exchanged; mean and deviation go with their colour."""
    return replace(
        convention,
        color="bgr" if convention.color == "rgb" else "rgb",
        mean=convention.mean[::-1],
        std=convention.std[::-1],
        source=f"{convention.source}, with red and blue exchanged",
    )


def _plain(convention: Convention) -> Convention:
    return replace(
        convention,
        scale=1.0,
        mean=_ZEROS,
        std=_ONES,
        source=f"{convention.source}; 8-bit input, pixels as they are",
    )
