"""The DETR kind: a fixed number of queries, one object each, no NMS.

Layouts:

- Deploy graph of RT-DETR, D-FINE, DEIM (lyuwenyu/RT-DETR `src/zoo/rtdetr/rtdetr_postprocessor.py`,
  Peterande/D-FINE `tools/deployment/export_onnx.py`): labels (B, Q), boxes (B, Q, 4) as corners, scaled by the
  (width, height) that the second input gives, scores (B, Q). Exporters may squeeze the batch away.
- Without post-process (Hugging Face exports, RF-DETR): logits (B, Q, C) and boxes (B, Q, 4) as
  `cx, cy, w, h` in fractions of the input. Scores are the sigmoid of the logits; the first DETR
  (facebookresearch/detr) takes a softmax whose last class is "no object": `activation: softmax`.
- One tensor (B, Q, 4 + C): boxes as above, then probabilities.

`first_class_id` skips classes before the labels.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import Activation, activate, read_boxes
from edge_runtime.perception.decoders.layout import (
    as_float32,
    boxes_of,
    image_of,
    named,
    require_outputs,
    same_length,
    shape_text,
)
from edge_runtime.perception.decoders.selection import best_class, class_ids_to_labels, finish, not_below


class DetrDecoder:
    """Finished labels, boxes and scores; or logits and boxes; or both in one tensor."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._first = head.first_class_id
        classes = self._first + labels
        self._classes = (classes, classes + 1) if head.activation == "softmax" else (classes,)

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        order = "labels, boxes, scores; or logits, boxes; or one tensor of boxes and classes"
        require_outputs(head, outputs, (1, 2, 3), order)
        with np.errstate(over="ignore", invalid="ignore"):
            if len(outputs) == 3:
                return self._finished(outputs, index, score)
            if len(outputs) == 2:
                logits = self._oriented(image_of(head, outputs, 0, index, 2), 0, 0)
                boxes = boxes_of(head, outputs, 1, index)
                same_length(head, len(logits), len(boxes))
                return self._queries(logits, boxes, "sigmoid", score)
            rows = self._oriented(image_of(head, outputs, 0, index, 2), 0, 4)
            return self._queries(rows[:, 4:], rows[:, :4], "none", score)

    def _finished(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        head = self._head
        ids = image_of(head, outputs, 0, index, 1)
        boxes = boxes_of(head, outputs, 1, index)
        scores = image_of(head, outputs, 2, index, 1)
        same_length(head, len(ids), len(boxes), len(scores))
        kept = not_below(scores, score)
        best = as_float32(scores[kept]).copy()
        label = class_ids_to_labels(head, ids[kept], best, self._labels)
        xyxy = read_boxes(head, self._spec, boxes[kept], "xyxy", normalized=False)
        return finish(head, xyxy, best, label, score)

    def _queries(self, classes: Tensor, boxes: Tensor, usual: Activation, score: float) -> Candidates:
        head = self._head
        # A few hundred queries: the exact scores of all cost less than a prefilter.
        confidence = activate(classes, head.activation or usual)
        best, label = best_class(confidence[:, self._first : self._first + self._labels])
        kept = not_below(best, score)
        xyxy = read_boxes(head, self._spec, boxes[kept], "cxcywh", normalized=True)
        return finish(head, xyxy, best[kept], label[kept], score)

    def _oriented(self, matrix: Tensor, position: int, before: int) -> Tensor:
        """(Q, before + C) for the C that fits the label map, with or without a class for no object."""
        for classes in self._classes:
            if matrix.shape[1] == before + classes:
                return matrix
        for classes in self._classes:
            if matrix.shape[0] == before + classes:
                transposed: Tensor = matrix.T
                return transposed
        wanted = " or ".join(str(before + classes) for classes in self._classes)
        raise DecodeError(
            f"{self._head.family}: {named(self._head, position)} is {shape_text(matrix)} per image, but one "
            f"side must be {wanted} for {self._labels} labels: the label map does not fit the model"
        )
