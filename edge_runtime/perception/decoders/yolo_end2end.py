"""YOLOv10, YOLO26 and other exports that choose their boxes inside the graph.

Layout (THU-MIG/yolov10 and the end-to-end ONNX exports, `output0`): (B, K, 6), each row
`x1, y1, x2, y2, score, class id`, box in model pixels, best first, K (300) rows padded with score 0. Exports of
other YOLO models with their NMS in the graph write the same rows.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import read_boxes
from edge_runtime.perception.decoders.layout import as_float32, image_of, require_outputs, rows_of
from edge_runtime.perception.decoders.selection import class_ids_to_labels, finish, not_below


class YoloEnd2EndDecoder:
    """One tensor of finished boxes."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (1,), "one tensor of boxes, score and class id")
        matrix = image_of(head, outputs, 0, index, 2)
        rows = rows_of(head, matrix, 0, 6, "4 of the box, score and class id")
        with np.errstate(over="ignore", invalid="ignore"):
            picked = as_float32(rows[not_below(rows[:, 4], score)])
            best = picked[:, 4].copy()
            label = class_ids_to_labels(head, picked[:, 5], best, self._labels)
            boxes = read_boxes(head, self._spec, picked[:, :4], "xyxy", normalized=False)
            return finish(head, boxes, best, label, score)
