"""YOLOv8 kind, anchor-free without objectness: YOLOv8, YOLO11, YOLO12, YOLO-World.

Layout (the ONNX export of these models, `output0`): (B, 4 + C, N), each column `cx, cy, w, h, class scores`,
box in model pixels, scores after a sigmoid. Some exporters transpose it to (B, N, 4 + C). N is 8400 at 640
(strides 8, 16, 32), but nothing here depends on it.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import activate, before_sigmoid, read_boxes
from edge_runtime.perception.decoders.layout import image_of, require_outputs, rows_of
from edge_runtime.perception.decoders.selection import best_class, finish, rows_not_below


class YoloV8Decoder:
    """One tensor of boxes and class scores."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._first = 4 + head.first_class_id
        self._activation = head.activation or "none"

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (1,), "one tensor of boxes and classes")
        rows = rows_of(
            head,
            image_of(head, outputs, 0, index, 2),
            0,
            self._first + self._labels,
            f"4 of the box and {self._labels} classes",
            columns=True,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            limit = before_sigmoid(score) if self._activation == "sigmoid" else score
            picked = rows[rows_not_below(rows[:, self._first :], limit)]
            best, label = best_class(activate(picked[:, self._first :], self._activation))
            boxes = read_boxes(head, self._spec, picked[:, :4], "cxcywh", normalized=False)
            return finish(head, boxes, best, label, score)
