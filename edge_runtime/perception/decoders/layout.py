"""Output tensors as a head expects them, or one sentence about what is wrong with them."""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends.base import Tensor


def named(head: HeadSpec, position: int) -> str:
    """`'output0'` of the manifest, for error sentences."""
    return f"'{head.outputs[position]}'" if position < len(head.outputs) else f"output {position}"


def shape_text(tensor: Tensor) -> str:
    """`1x84x8400`."""
    return "x".join(str(size) for size in tensor.shape) or "scalar"


def require_outputs(head: HeadSpec, outputs: Sequence[Tensor], counts: Sequence[int], order: str) -> None:
    """Refuse another number of output tensors than the head has.

    Raises:
        DecodeError: naming the order in which the manifest must list them.
    """
    if len(outputs) not in counts:
        wanted = " or ".join(str(count) for count in counts)
        raise DecodeError(f"{head.family}: {len(outputs)} outputs where the head has {wanted}: {order}")


def image_of(head: HeadSpec, outputs: Sequence[Tensor], position: int, index: int, rank: int) -> Tensor:
    """What output `position` says about image `index`: an array of `rank` dimensions.

    A tensor without a batch axis (squeezed by its exporter) is taken as a batch of one.

    Raises:
        DecodeError: another rank, a batch too small, or not floating point or integer.
    """
    tensor = outputs[position]
    if tensor.dtype.kind not in "fiu":
        raise DecodeError(f"{head.family}: {named(head, position)} holds {tensor.dtype}, not numbers")
    if tensor.ndim == rank and index == 0:
        return tensor
    if tensor.ndim != rank + 1:
        raise DecodeError(
            f"{head.family}: {named(head, position)} has the shape {shape_text(tensor)} where "
            f"{rank + 1} dimensions are needed"
        )
    if index >= tensor.shape[0]:
        raise DecodeError(
            f"{head.family}: {named(head, position)} holds {tensor.shape[0]} images, there is no image {index}"
        )
    image: Tensor = tensor[index]
    return image


def rows_of(
    head: HeadSpec,
    matrix: Tensor,
    position: int,
    channels: int,
    meaning: str,
    *,
    columns: bool = False,
    otherwise: str = "the label map does not fit the model",
) -> Tensor:
    """A matrix with one candidate a row, transposed where the model has one a column.

    Args:
        head: of the manifest.
        matrix: (N, channels) or (channels, N).
        position: of the tensor among the outputs.
        channels: numbers per candidate.
        meaning: what the channels are made of, for the error sentence.
        columns: the family has one candidate a column, which decides where both sides have that length.
        otherwise: what it means that they are not there.

    Returns:
        (N, channels), perhaps a transposed view.

    Raises:
        DecodeError: neither side has that many channels, which usually means another number of classes.
    """
    if matrix.shape[1] == channels and not (columns and matrix.shape[0] == channels):
        return matrix
    if matrix.shape[0] == channels:
        transposed: Tensor = matrix.T
        return transposed
    raise DecodeError(
        f"{head.family}: {named(head, position)} is {shape_text(matrix)} per image, but one side must be "
        f"{channels} ({meaning}): {otherwise}"
    )


def boxes_of(head: HeadSpec, outputs: Sequence[Tensor], position: int, index: int) -> Tensor:
    """(N, 4): the box numbers of one image, where a tensor of their own holds them.

    Raises:
        DecodeError: the tensor holds something else.
    """
    matrix = image_of(head, outputs, position, index, 2)
    return rows_of(
        head, matrix, position, 4, "4 of the box", otherwise="list the outputs in the head's order"
    )


def same_length(head: HeadSpec, *counts: int) -> None:
    """Refuse outputs that speak of different numbers of candidates.

    Raises:
        DecodeError: the outputs do not belong together or are in the wrong order.
    """
    if len(set(counts)) > 1:
        text = ", ".join(str(count) for count in counts)
        raise DecodeError(f"{head.family}: the outputs have {text} candidates; list them in the head's order")


def as_float32(values: Tensor) -> Tensor:
    """A float32 copy only where the model gave another precision."""
    return values if values.dtype == np.float32 else values.astype(np.float32)
