"""A frame becomes a model's input: resize, split, scale, straight into a buffer that is reused.

Resizing into a kept buffer, splitting it into planes and scaling each plane into its place takes 1.0 ms for a
768x576 frame at 640 on one core, where OpenCV's `blobFromImage` with its fresh result takes 2 to 10
(docs/decisions/0020).
Interpolation is bilinear with pixel centres at half integers, which is what `Letterbox` inverts.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from edge_runtime.errors import ConfigError, ImageError, PackageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import Tensor, TensorSpec
from edge_runtime.perception.letterbox import Letterbox, fit
from edge_runtime.sources.frame import Image

_KEPT_SIZES = 8
"""Frame sizes whose scratch buffers are kept; cameras on one model rarely have more."""


def size_feeds(spec: InputSpec, inputs: Sequence[TensorSpec], batch: int) -> dict[str, Tensor]:
    """The second input of a DETR deploy graph, which scales its boxes by the (width, height) it is given.

    It is given the model's own input size, so that boxes come out in model pixels like those of every other
    family and the letterbox's inverse applies; for a square input the order of the two does not matter.

    Args:
        spec: the model's input.
        inputs: of the backend, for the data type.
        batch: rows to make.

    Returns:
        (batch, 2) by input name; empty where the model has no such input.

    Raises:
        PackageError: the manifest names an input that the graph does not have.
    """
    if spec.size_input is None:
        return {}
    declared = {tensor.name: tensor for tensor in inputs}
    if spec.size_input not in declared:
        raise PackageError(f"the graph has no input '{spec.size_input}' for the image size")
    sizes = np.array([[spec.width, spec.height]] * batch, declared[spec.size_input].dtype)
    return {spec.size_input: sizes}


class Preprocessor:
    """Writes frames into input tensors as one model wants them.

    An instance keeps scratch buffers and belongs to one thread. It allocates when a frame size is first seen
    and not afterwards. OpenCV's own threads should be off in the process (`cv2.setNumThreads(1)`).

    Args:
        spec: the model's input.
    """

    def __init__(self, spec: InputSpec) -> None:
        self.spec = spec
        self._order = (0, 1, 2) if spec.color == "bgr" else (2, 1, 0)
        mean, std = np.array(spec.mean, np.float64), np.array(spec.std, np.float64)
        if not std.all():
            raise ConfigError("the input's std holds a zero, which pixels cannot be divided by")
        # (p * scale - mean) / std as one multiplication and one addition per channel of the input.
        self._factor = (spec.scale / std).astype(np.float32)
        self._shift = (-mean / std).astype(np.float32)
        table = (np.arange(256)[:, None] * spec.scale - mean) / std
        if spec.dtype == "uint8":
            table = np.clip(np.rint(table), 0, 255)
        self._table = table.astype(spec.dtype)
        self._padding = self._table[spec.pad_value]
        self._plane_tables = [_movable(self._table[:, [channel]]) for channel in range(3)]
        self._pixel_table = _movable(self._table)
        self._uniform = bool(
            (self._factor == self._factor[0]).all() and (self._shift == self._shift[0]).all()
        )
        self._identity = spec.dtype == "uint8" and bool((self._table == np.arange(256)[:, None]).all())
        self._scratch: dict[tuple[int, int], _Scratch] = {}
        self._plain = np.empty((0, 0, 3), np.uint8)

    def allocate(self, batch: int) -> Tensor:
        """A tensor for `batch` images, filled with the padding colour; reuse it from frame to frame.

        Returns:
            (batch, 3, H, W) or (batch, H, W, 3) in the input's dtype.
        """
        height, width = self.spec.height, self.spec.width
        out: Tensor
        if self.spec.layout == "nchw":
            out = np.empty((batch, 3, height, width), self.spec.dtype)
            out[:] = self._padding[:, None, None]
        else:
            out = np.empty((batch, height, width, 3), self.spec.dtype)
            out[:] = self._padding
        return out

    def fill(self, image: Image, out: Tensor, index: int, previous: Letterbox | None) -> Letterbox:
        """Write one frame into a batch.

        Args:
            image: (H, W, 3) uint8, BGR; any strides.
            out: from `allocate`; what it held before does not matter.
            index: which image of the batch.
            previous: what `fill` returned for this `index` of this `out` last time. The padding is written
                again unless it is the same geometry; None always writes it.

        Returns:
            The geometry that was really used; `Letterbox.to_source` inverts it.

        Raises:
            ImageError: the image is gray, empty or not 8-bit.
        """
        check_image(image)
        box = fit(self.spec, image.shape[0], image.shape[1])
        if previous != box:
            self._pad(out[index], box)
        rows = slice(box.top, box.top + box.inner_height)
        columns = slice(box.left, box.left + box.inner_width)
        if self.spec.layout == "nchw":
            self._fill_planes(image, out[index, :, rows, columns])
        else:
            self._fill_pixels(image, out[index, rows, columns])
        return box

    def _pad(self, slot: Tensor, box: Letterbox) -> None:
        bottom, right = box.top + box.inner_height, box.left + box.inner_width
        if self.spec.layout == "nchw":
            slot, color = slot.transpose(1, 2, 0), self._padding
        else:
            color = self._padding
        for band in (slot[: box.top], slot[bottom:], slot[:, : box.left], slot[:, right:]):
            band[:] = color

    def _resized(self, image: Image, height: int, width: int) -> tuple[Image, "_Scratch"]:
        """The image at (height, width), and the buffers for the next step."""
        scratch = self._scratch.get((height, width))
        if scratch is None:
            if len(self._scratch) >= _KEPT_SIZES:
                self._scratch.clear()
            scratch = self._scratch[height, width] = _Scratch(height, width)
        image = self._contiguous(image)
        if image.shape[:2] == (height, width):
            return image, scratch
        cv2.resize(image, (width, height), dst=scratch.pixels, interpolation=cv2.INTER_LINEAR)
        return scratch.pixels, scratch

    def _contiguous(self, image: Image) -> Image:
        """`image`, or a copy of it in a kept buffer where OpenCV would allocate one (a rotated view)."""
        if image.strides[1:] == (3, 1) and image.strides[0] >= image.shape[1] * 3:
            return image
        if self._plain.shape != image.shape:
            self._plain = np.empty(image.shape, np.uint8)
        np.copyto(self._plain, image)
        return self._plain

    def _fill_planes(self, image: Image, out: Tensor) -> None:
        resized, scratch = self._resized(image, out.shape[1], out.shape[2])
        cv2.split(resized, scratch.planes)
        for channel, source in enumerate(self._order):
            plane, target = scratch.planes[source], out[channel]
            if self.spec.dtype == "float32":
                self._scale(plane, target, channel)
            elif self._identity:
                np.copyto(target, plane)
            else:
                _look_up(plane, self._plane_tables[channel], target)

    def _fill_pixels(self, image: Image, out: Tensor) -> None:
        pixels, scratch = self._resized(image, out.shape[0], out.shape[1])
        if self.spec.color == "rgb":
            target = out if self._identity else scratch.swapped
            pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=target)  # type: ignore[assignment]
        elif self._identity:
            np.copyto(out, pixels)
        if self._identity:
            return
        if self.spec.dtype == "float32" and self._uniform:
            self._scale(pixels, out, 0)
        else:
            _look_up(pixels, self._pixel_table, out)

    def _scale(self, pixels: Image, out: Tensor, channel: int) -> None:
        """8-bit pixels to float32 with the factor and shift of `channel`: SIMD passes over one plane."""
        np.copyto(out, pixels)
        if self._factor[channel] != 1:
            np.multiply(out, self._factor[channel], out=out)
        if self._shift[channel] != 0:
            np.add(out, self._shift[channel], out=out)


class _Scratch:
    """Buffers for one resized size."""

    def __init__(self, height: int, width: int) -> None:
        self.pixels: Image = np.empty((height, width, 3), np.uint8)
        self.swapped: Image = np.empty((height, width, 3), np.uint8)
        self.planes: list[Image] = [np.empty((height, width), np.uint8) for _ in range(3)]


def _look_up(pixels: Image, table: Tensor, out: Tensor) -> None:
    cv2.LUT(pixels, table, dst=out.view(table.dtype))


def _movable(table: Tensor) -> Tensor:
    """A (256, C) table as OpenCV's LUT takes it: (1, 256, C), halves as int16.

    numpy converts to half precision in software (3.8 ms for a 640x480 picture); moving table entries is exact
    for every dtype and takes 0.4 ms.
    """
    contiguous = np.ascontiguousarray(table[None])
    return contiguous.view(np.int16) if contiguous.dtype == np.float16 else contiguous


def check_image(image: Image) -> None:
    """Refuse what is not an 8-bit colour picture.

    Raises:
        ImageError: with what to do about it.
    """
    if image.dtype != np.uint8:
        raise ImageError(f"the image is {image.dtype}: models take 8-bit images (uint8, 0..255)")
    if image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 1):
        raise ImageError("the image is gray: convert it to 3-channel BGR (cv2.COLOR_GRAY2BGR) first")
    if image.ndim != 3 or image.shape[2] != 3:
        shape = "x".join(str(size) for size in image.shape)
        raise ImageError(f"the image has the shape {shape}: models take height x width x 3, BGR")
    if image.size == 0:
        raise ImageError("the image is empty")
