"""Which input sizes a graph really runs at, whatever its file declares: found out by running it.

An export can declare a size that its own constants contradict (a YOLOv10n that declares 320 fails in a Reshape
at run time and runs at 640 only), or one that it was merely traced with (CenterFace's 10x3x32x32). Loading
says nothing about either.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np

from edge_runtime.errors import BackendError, PackageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.packages.onnx_shapes import Dim, rewrite_shapes
from edge_runtime.packages.scratch import scratch_directory
from edge_runtime.perception.backends import (
    PROVING_TIMEOUT_S,
    Backend,
    InferenceTimeout,
    Tensor,
    load_backend,
)

Size = tuple[int, int]
"""Height and width in pixels."""

_COMMON_SQUARES: Final = (640, 416, 320, 512, 352, 300, 608, 448, 384, 480, 544, 576, 256, 224, 288)
_LARGER_SQUARES: Final = (672, 704, 736, 768, 800, 832, 896, 960, 1024, 1280, 192, 160, 128, 96, 64)
_RECTANGLES: Final = (
    (480, 640),
    (384, 640),
    (240, 320),
    (288, 512),
    (256, 320),
    (416, 736),
    (736, 1280),
    (544, 960),
)
_MOST_ELEMENTS: Final = 1 << 28
"""Of a tried input: a gigabyte of float32. A declaration beyond it is wrong, and trying it fills the memory."""


@dataclass(frozen=True, slots=True)
class ImageInput:
    """The input that takes pictures.

    Attributes:
        layout: `nchw` or `nhwc`.
        size_input: name of the second input of a DETR deploy graph, or None.
    """

    name: str
    layout: str
    dtype: str
    size_input: str | None = None

    @classmethod
    def of(cls, spec: InputSpec) -> "ImageInput":
        """As a manifest describes it."""
        return cls(spec.name, spec.layout, spec.dtype, spec.size_input)

    def dims(self, batch: Dim, height: Dim, width: Dim) -> tuple[Dim, ...]:
        """In the input's layout."""
        return (batch, 3, height, width) if self.layout == "nchw" else (batch, height, width, 3)

    def feeds(self, backend: Backend, size: Size, batch: int = 1) -> dict[str, Tensor]:
        """A picture with a gradient and blocks, plausible enough for every node to do its work.

        Raises:
            BackendError: the input would be too large to try.
        """
        height, width = size
        if 3 * batch * height * width > _MOST_ELEMENTS:
            declared_size = "x".join(str(dim) for dim in self.dims(batch, height, width))
            raise BackendError(f"an input of {declared_size} is more than can be fed")
        y, x = np.mgrid[:height, :width]
        blocks = (x // 24 + y // 24) % 2 * 60
        picture = ((x * 160 // width + y * 80 // height + blocks) % 256).astype(np.float32)
        planes = np.stack([picture, picture[::-1], picture[:, ::-1]])
        if self.dtype != "uint8":
            planes /= 255
        image = planes if self.layout == "nchw" else planes.transpose(1, 2, 0)
        feeds = {self.name: np.repeat(image[None], batch, 0).astype(self.dtype)}
        if self.size_input is not None:
            declared = {spec.name: spec.dtype for spec in backend.inputs}
            feeds[self.size_input] = np.array([[width, height]] * batch, declared[self.size_input])
        return feeds


@contextlib.contextmanager
def loaded(weights: bytes | Path, shapes: Mapping[str, Sequence[Dim]] | None = None) -> Iterator[Backend]:
    """A backend over `weights`, with the declared shapes replaced by `shapes`.

    Raises:
        BackendError: the graph does not load.
    """
    with scratch_directory("probe") as scratch:
        if isinstance(weights, Path) and not shapes:
            path = weights
        else:
            data = weights.read_bytes() if isinstance(weights, Path) else weights
            path = scratch / "model.onnx"
            path.write_bytes(rewrite_shapes(data, shapes) if shapes else data)
        backend = load_backend(path)
        try:
            yield backend
        finally:
            backend.close()


class SizeProbe:
    """A graph whose image input is declared open, to be run at any size. Use it as a context manager.

    Args:
        weights: the ONNX file.
        image: its image input.

    Raises:
        BackendError: the graph does not load even so.
    """

    def __init__(self, weights: bytes | Path, image: ImageInput) -> None:
        self._stack = contextlib.ExitStack()
        self._image = image
        shapes = {image.name: image.dims("batch", "height", "width")}
        self._backend = self._stack.enter_context(loaded(weights, shapes))

    def __enter__(self) -> "SizeProbe":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def why_not(self, size: Size, batch: int = 1) -> str | None:
        """None where the graph runs at `size`; otherwise the runtime's reason.

        Raises:
            InferenceTimeout: it never answered; other sizes would only take as long again.
        """
        try:
            self.outputs(size, batch)
        except InferenceTimeout:
            raise
        except BackendError as error:
            return str(error)
        return None

    def outputs(self, size: Size, batch: int = 1) -> dict[str, Tensor]:
        """Output arrays by name.

        Raises:
            BackendError: the graph does not run at this size.
        """
        results = self._backend.infer(self._image.feeds(self._backend, size, batch), PROVING_TIMEOUT_S)
        return {spec.name: result for spec, result in zip(self._backend.outputs, results, strict=True)}

    def first(self, candidates: Iterable[Size]) -> Size | None:
        """The first size that the graph runs at."""
        return next((size for size in candidates if self.why_not(size) is None), None)


def why_not_as_declared(weights: bytes | Path, image: ImageInput, size: Size, batch: int = 1) -> str | None:
    """None where the unchanged file runs at `size`; otherwise the runtime's reason."""
    try:
        with loaded(weights) as backend:
            backend.infer(image.feeds(backend, size, batch), PROVING_TIMEOUT_S)
    except (BackendError, PackageError) as error:
        return str(error)
    return None


def plausible_sizes(hints: Iterable[Size] = ()) -> list[Size]:
    """Sizes worth trying, the likely ones first, each once.

    Args:
        hints: what metadata, the file's name or the declaration suggest; tried first, also turned.
    """
    ordered: list[Size] = []
    for height, width in hints:
        ordered += [(height, width), (width, height)]
    ordered += [(side, side) for side in _COMMON_SQUARES]
    ordered += [size for height, width in _RECTANGLES for size in ((height, width), (width, height))]
    ordered += [(side, side) for side in _LARGER_SQUARES]
    return list(dict.fromkeys(ordered))
