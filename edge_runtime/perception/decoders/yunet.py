"""YuNet: small faces, anchor-free, one set of tensors per stride.

Layout (opencv/opencv `modules/objdetect/src/face_detect.cpp: FaceDetectorYNImpl::postProcess`, models of
opencv_zoo since 2023): class scores (B, N, C) for the strides 8, 16, 32, then objectness (B, N, 1), then boxes
(B, N, 4), then key points (B, N, 10), which may be left out. score = sqrt(class x objectness), both clamped to
0..1; `cx = (column + x) stride`, `w = exp(w) stride`. The input is a multiple of 32.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import to_xyxy
from edge_runtime.perception.decoders.grid import cell_grid, strides_for
from edge_runtime.perception.decoders.layout import as_float32, boxes_of, image_of, rows_of, same_length
from edge_runtime.perception.decoders.selection import best_class, finish, not_below
from edge_runtime.perception.detections import FloatArray, IntArray


class YuNetDecoder:
    """Class scores, objectness and boxes of every stride."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._offset = head.cell_offset or 0.0

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        levels = self._levels(outputs)
        parts: list[tuple[FloatArray, IntArray, FloatArray, IntArray]] = []
        cells = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for level in range(levels):
                classes, objectness, numbers = self._level(outputs, level, levels, index)
                best, label, kept = self._scores(classes, objectness, score)
                parts.append((best, label, as_float32(numbers[kept]), kept + cells))
                cells += len(classes)
            best, label, numbers, kept = (np.concatenate(part) for part in zip(*parts, strict=True))
            strides = strides_for(self._head, self._spec, cells)
            points, sizes = cell_grid(self._spec.height, self._spec.width, strides, self._offset)
            center = points[kept] + numbers[:, :2]
            extent = np.exp(numbers[:, 2:4])
            boxes = to_xyxy(np.concatenate([center, extent], 1) * sizes[kept], "cxcywh")
            return finish(self._head, boxes, best, label, score)

    def _levels(self, outputs: Sequence[Tensor]) -> int:
        """Strides, told from how many tensors hold boxes."""
        boxes = sum(1 for output in outputs if output.ndim >= 2 and output.shape[-1] == 4)
        if not boxes or len(outputs) not in (3 * boxes, 4 * boxes):
            raise DecodeError(
                f"{self._head.family}: {len(outputs)} outputs, {boxes} of them boxes, where the head has class "
                "scores, objectness, boxes and optionally key points of every stride, in this order"
            )
        return boxes

    def _level(
        self, outputs: Sequence[Tensor], level: int, levels: int, index: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Class scores (N, C), objectness (N,) and box numbers (N, 4) of one stride."""
        head = self._head
        width = head.first_class_id + self._labels
        found = []
        for group, (channels, meaning) in enumerate(((width, f"{self._labels} classes"), (1, "objectness"))):
            position = group * levels + level
            matrix = image_of(head, outputs, position, index, 2)
            found.append(rows_of(head, matrix, position, channels, meaning))
        classes, objectness = found
        numbers = boxes_of(head, outputs, 2 * levels + level, index)
        same_length(head, len(classes), len(objectness), len(numbers))
        return classes[:, head.first_class_id :], objectness[:, 0], numbers

    def _scores(
        self, classes: Tensor, objectness: Tensor, score: float
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """Score and label of the cells worth decoding, and which they are."""
        # sqrt(class x objectness) >= score needs objectness >= score squared; a hair less for the rounding.
        kept = not_below(objectness, score * score * 0.999)
        best, label = best_class(as_float32(classes[kept]))
        present = as_float32(objectness[kept])
        root: FloatArray = np.sqrt(np.clip(best, 0, 1) * np.clip(present, 0, 1))
        root[~np.isfinite(best + present)] = np.nan  # clamping must not turn an infinity into a score
        return root, label, kept
