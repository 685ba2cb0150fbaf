"""Finds the input that takes pictures, and what the file hints about its size."""

import re
from typing import Final

from edge_runtime.authoring.graph import GraphFacts, TensorFacts
from edge_runtime.errors import PackageError
from edge_runtime.qualification.sizes import ImageInput, Size

LEAST_SIDE: Final = 64
"""Pixels; no detector of a camera's pictures has a smaller input."""

_LARGEST_SIDE: Final = 4096
_IMAGE_DTYPES: Final = ("float32", "float16", "uint8")


def find_image_input(graph: GraphFacts) -> tuple[ImageInput, TensorFacts]:
    """The input that takes pictures, and its declaration.

    Raises:
        PackageError: there is none, or other inputs that this runtime does not know how to fill.
    """
    pictures = [tensor for tensor in graph.inputs if len(tensor.dims) == 4]
    if len(pictures) != 1:
        listed = ", ".join(str(tensor) for tensor in graph.inputs) or "none"
        raise PackageError(
            f"a detector takes one picture (four dimensions), but the graph's inputs are {listed}"
        )
    declared = pictures[0]
    if declared.dtype not in _IMAGE_DTYPES:
        raise PackageError(
            f"the input {declared} is not float32, float16 or uint8, which pictures are fed as"
        )
    others = [tensor for tensor in graph.inputs if tensor is not declared]
    size_input = next((tensor.name for tensor in others if _is_size_input(tensor)), None)
    unknown = [tensor for tensor in others if tensor.name != size_input]
    if unknown:
        raise PackageError(
            f"the graph also needs the input {unknown[0]}, which this runtime does not know how to fill"
        )
    return ImageInput(declared.name, _layout(declared), declared.dtype, size_input), declared


def declared_size(image: ImageInput, declared: TensorFacts) -> tuple[int | None, int | None]:
    """Height and width as the file declares them; None where it leaves them open."""
    return (
        (declared.dims[2], declared.dims[3])
        if image.layout == "nchw"
        else (declared.dims[1], declared.dims[2])
    )


def size_hints(graph: GraphFacts, stem: str) -> list[Size]:
    """Sizes that the metadata or the file's name mention, the metadata's first.

    Args:
        graph: as read.
        stem: the file's name without its ending.
    """
    hints: list[Size] = []
    for key in ("imgsz", "input_size", "image_size"):
        value = graph.metadata_value(key)
        if isinstance(value, int):
            value = [value, value]
        if (
            isinstance(value, list | tuple)
            and len(value) == 2
            and all(isinstance(side, int) for side in value)
        ):
            hints.append((value[0], value[1]))
    pairs = re.findall(r"(?<!\d)(\d{2,4})x(\d{2,4})(?!\d)", stem)
    hints += [(int(second), int(first)) for first, second in pairs]  # names say the width first
    hints += [(int(side), int(side)) for side in re.findall(r"(?<![\dx])(\d{3,4})(?![\dx])", stem)]
    return [size for size in hints if min(size) >= LEAST_SIDE and max(size) <= _LARGEST_SIDE]


def _is_size_input(tensor: TensorFacts) -> bool:
    """`orig_target_sizes` of DETR deploy graphs: two numbers per picture."""
    return len(tensor.dims) == 2 and tensor.dims[1] == 2 and tensor.dtype in ("int64", "int32", "float32")


def _layout(declared: TensorFacts) -> str:
    planes, pixels = declared.dims[1], declared.dims[3]
    if planes == 3 or (planes is None and pixels is None):
        return "nchw"
    if pixels == 3:
        return "nhwc"
    raise PackageError(
        f"the input {declared} has no axis of 3 colours: only colour detectors can be imported"
    )
