"""YOLOX: anchor-free with objectness, boxes relative to their cell.

Layout (Megvii-BaseDetection/YOLOX `tools/export_onnx.py` without `--decode_in_inference`, `yolox/utils/
demo_utils.py: demo_postprocess`): (B, N, 5 + C), each row `x, y, w, h, objectness, class scores`, scores after
a sigmoid, cells ordered by stride (8, 16, 32; also 64 for P6), row, column. Then `cx = (x + column) stride`,
`w = exp(w) stride`. With `--decode_in_inference` the boxes are pixels already: that is the yolov5 layout.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import activate, before_sigmoid, to_xyxy
from edge_runtime.perception.decoders.grid import cell_grid, strides_for
from edge_runtime.perception.decoders.layout import as_float32, image_of, require_outputs, rows_of
from edge_runtime.perception.decoders.selection import best_class, finish, not_below


class YoloXDecoder:
    """One tensor over the cells of all strides."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._first = 5 + head.first_class_id
        self._activation = head.activation or "none"
        self._offset = head.cell_offset or 0.0

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (1,), "one tensor of boxes, objectness and classes")
        rows = rows_of(
            head,
            image_of(head, outputs, 0, index, 2),
            0,
            self._first + self._labels,
            f"4 of the box, objectness and {self._labels} classes",
        )
        height, width = self._spec.height, self._spec.width
        points, strides = cell_grid(height, width, strides_for(head, self._spec, len(rows)), self._offset)
        with np.errstate(over="ignore", invalid="ignore"):
            limit = before_sigmoid(score) if self._activation == "sigmoid" else score
            kept = not_below(rows[:, 4], limit)
            picked = as_float32(rows[kept])
            confidence = activate(picked[:, 4:], self._activation)
            best, label = best_class(confidence[:, self._first - 4 :] * confidence[:, :1])
            stride = strides[kept]
            center = (picked[:, :2] + points[kept]) * stride
            size = np.exp(picked[:, 2:4]) * stride
            boxes = to_xyxy(np.concatenate([center, size], 1), "cxcywh")
            return finish(head, boxes, best, label, score)
