"""NanoDet, NanoDet-Plus and PicoDet: class scores and a distribution per box side (distribution focal loss).

Layouts, for each cell C class scores after a sigmoid and 4 (R + 1) logits over the bins 0..R of the distances
left, top, right, bottom in strides:

- NanoDet-m (RangiLyu/nanodet v0.x `nanodet/model/head/nanodet_head.py` and `gfl_head.py`) and PicoDet
  (PaddlePaddle/PaddleDetection `ppdet/modeling/heads/pico_head.py` without its post-process): per stride a
  tensor (B, N, C), then per stride a tensor (B, N, 4 (R + 1)); or (B, channels, H, W). Anchor points in the
  middle of the cells. NanoDet has the strides 8, 16, 32; PicoDet 8, 16, 32, 64.
- NanoDet 1.0: the same in one tensor (B, N, C + 4 (R + 1)), strides 8, 16, 32, points in the middle.
- NanoDet-Plus (`nanodet_plus_head.py: get_single_level_center_priors`): one tensor, strides 8, 16, 32, 64,
  points at the corner of the cells.

R is 7 in all published models and taken for granted where one tensor holds everything and the manifest does
not say; separate tensors tell it themselves.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import activate, before_sigmoid, distances_to_xyxy, expected_bin
from edge_runtime.perception.decoders.grid import cell_grid, strides_for
from edge_runtime.perception.decoders.layout import (
    as_float32,
    image_of,
    named,
    require_outputs,
    rows_of,
    shape_text,
)
from edge_runtime.perception.decoders.selection import best_class, finish, rows_not_below
from edge_runtime.perception.detections import FloatArray

_USUAL_REG_MAX = 7


class NanoDetDecoder:
    """Per-stride pairs of tensors, or one tensor over the cells of all strides."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._classes = head.first_class_id + labels
        self._activation = head.activation or "none"

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        levels = self._fused(outputs, index) if len(outputs) == 1 else self._pairs(outputs, index)
        points, strides = self._grid(sum(len(scores) for scores, _ in levels), fused=len(outputs) == 1)
        confidence, logits, kept = [], [], []
        start = 0
        limit = before_sigmoid(score) if self._activation == "sigmoid" else score
        with np.errstate(over="ignore", invalid="ignore"):
            for scores, sides in levels:
                cells = rows_not_below(scores, limit)
                confidence.append(scores[cells, self._head.first_class_id :])
                logits.append(sides[cells])
                kept.append(cells + start)
                start += len(scores)
            cells = np.concatenate(kept)
            best, label = best_class(activate(np.concatenate(confidence), self._activation))
            bins = as_float32(np.concatenate(logits)).reshape(len(cells), 4, -1)
            boxes = distances_to_xyxy(points[cells], expected_bin(bins)) * strides[cells]
            return finish(self._head, boxes, best, label, score)

    def _grid(self, count: int, *, fused: bool) -> tuple[FloatArray, FloatArray]:
        head, spec = self._head, self._spec
        strides = strides_for(head, spec, count)
        offset = head.cell_offset
        if offset is None:
            offset = 0.0 if fused and len(strides) == 4 else 0.5  # NanoDet-Plus, or all others
        return cell_grid(spec.height, spec.width, strides, offset)

    def _fused(self, outputs: Sequence[Tensor], index: int) -> list[tuple[Tensor, Tensor]]:
        head, classes = self._head, self._classes
        matrix = image_of(head, outputs, 0, index, 2)
        bins = (_USUAL_REG_MAX if head.reg_max is None else head.reg_max) + 1
        rows = rows_of(head, matrix, 0, classes + 4 * bins, f"{self._labels} classes and 4 x {bins} bins")
        return [(rows[:, :classes], rows[:, classes:])]

    def _pairs(self, outputs: Sequence[Tensor], index: int) -> list[tuple[Tensor, Tensor]]:
        head = self._head
        order = "the class scores of every stride, then the box sides of every stride, finest first"
        require_outputs(head, outputs, (1, 4, 6, 8, 10), order)
        half = len(outputs) // 2
        levels = []
        for level in range(half):
            scores = self._matrix(outputs, level, index)
            scores = rows_of(head, scores, level, self._classes, f"{self._labels} classes")
            levels.append((scores, self._sides(outputs, half + level, index, len(scores))))
        return levels

    def _sides(self, outputs: Sequence[Tensor], position: int, index: int, cells: int) -> Tensor:
        """(cells, 4 x bins) of one level; the class scores tell which side counts the cells."""
        sides = self._matrix(outputs, position, index)
        if sides.shape[0] != cells:
            sides = sides.T
        declared = self._head.reg_max
        bins = sides.shape[1] // 4 if declared is None else declared + 1
        if sides.shape != (cells, 4 * bins) or bins < 2:
            raise DecodeError(
                f"{self._head.family}: {named(self._head, position)} has the shape "
                f"{shape_text(outputs[position])}, which does not hold 4 x bins for each of {cells} cells"
            )
        return sides

    def _matrix(self, outputs: Sequence[Tensor], position: int, index: int) -> Tensor:
        """One level of one image in two dimensions, whether its cells are a map or a list."""
        if outputs[position].ndim == 4:
            cube = image_of(self._head, outputs, position, index, 3)
            return cube.reshape(cube.shape[0], -1)
        return image_of(self._head, outputs, position, index, 2)
