"""UltraFace and other SSD heads whose boxes are decoded in the graph, but not chosen by NMS.

Layout (Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB `convert_to_onnx.py`, and qfgaohao/pytorch-ssd, which
it grew from): class probabilities (B, N, 1 + C), the background first, and boxes (B, N, 4) as corners in
fractions of the input. `first_class_id` is 1 because of the background.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import activate, read_boxes
from edge_runtime.perception.decoders.layout import boxes_of, image_of, require_outputs, rows_of, same_length
from edge_runtime.perception.decoders.selection import best_class, finish, rows_not_below


class UltraFaceDecoder:
    """Class probabilities and boxes."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._first = head.first_class_id
        self._activation = head.activation or "none"

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (2,), "class scores, boxes")
        meaning = f"{self._first} of the background and {self._labels} classes"
        scores = image_of(head, outputs, 0, index, 2)
        scores = rows_of(head, scores, 0, self._first + self._labels, meaning)
        boxes = boxes_of(head, outputs, 1, index)
        same_length(head, len(scores), len(boxes))
        with np.errstate(over="ignore", invalid="ignore"):
            if self._activation == "none":
                kept = rows_not_below(scores[:, self._first :], score)
                scores, boxes = scores[kept], boxes[kept]
            best, label = best_class(activate(scores, self._activation)[:, self._first :])
            xyxy = read_boxes(head, self._spec, boxes, "xyxy", normalized=True)
            return finish(head, xyxy, best, label, score)
