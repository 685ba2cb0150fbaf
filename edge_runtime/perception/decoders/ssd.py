"""SSD and other detectors with their NMS inside the graph, as finished boxes.

Layouts:

- TensorFlow Object Detection API (`object_detection/exporter.py`): boxes (B, K, 4), scores (B, K), class ids
  (B, K) and optionally the number of valid rows (B,). Boxes are `y1, x1, y2, x2` as fractions of the image;
  class ids start at 1. The manifest may say otherwise: torchvision's SSD and RetinaNet give `x1, y1, x2, y2`
  in pixels, TensorRT's EfficientNMS gives them with the count.
- Caffe's and OpenVINO's DetectionOutput: one tensor (1, 1, K, 7), each row `image, class id, score, x1, y1, x2,
  y2` as fractions, ended by a row with image -1.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import read_boxes
from edge_runtime.perception.decoders.layout import (
    as_float32,
    boxes_of,
    image_of,
    named,
    require_outputs,
    rows_of,
    same_length,
)
from edge_runtime.perception.decoders.selection import class_ids_to_labels, finish, not_below


class SsdDecoder:
    """Boxes, scores, class ids and perhaps a count; or one DetectionOutput tensor."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        order = "boxes, scores, class ids and optionally their count, or one DetectionOutput tensor"
        require_outputs(self._head, outputs, (1, 3, 4), order)
        with np.errstate(over="ignore", invalid="ignore"):
            if len(outputs) == 1:
                return self._detection_output(outputs, index, score)
            return self._separate(outputs, index, score)

    def _separate(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        head = self._head
        boxes = boxes_of(head, outputs, 0, index)
        scores = self._list(outputs, 1, index)
        ids = self._list(outputs, 2, index)
        same_length(head, len(boxes), len(scores), len(ids))
        if len(outputs) == 4:
            scores = scores[: self._valid(outputs[3].reshape(-1), index)]
        kept = not_below(scores, score)
        best = as_float32(scores[kept]).copy()
        label = class_ids_to_labels(head, ids[kept], best, self._labels)
        xyxy = read_boxes(head, self._spec, boxes[kept], "yxyx", normalized=True)
        return finish(head, xyxy, best, label, score)

    def _valid(self, counts: Tensor, index: int) -> int:
        """How many rows of the image hold a detection."""
        if index >= len(counts) or not np.isfinite(counts[index]) or counts[index] < 0:
            raise DecodeError(
                f"{self._head.family}: {named(self._head, 3)} should give the number of detections of image "
                f"{index}, but holds {counts[:4].tolist()}"
            )
        return int(counts[index])

    def _list(self, outputs: Sequence[Tensor], position: int, index: int) -> Tensor:
        """One number per candidate, with or without a last axis of 1."""
        tensor = outputs[position]
        if tensor.ndim == 3 and tensor.shape[2] == 1:
            outputs = [*outputs[:position], tensor[:, :, 0], *outputs[position + 1 :]]
        return image_of(self._head, outputs, position, index, 1)

    def _detection_output(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        head = self._head
        table = outputs[0].reshape(-1, outputs[0].shape[-1])
        rows = rows_of(head, table, 0, 7, "image, class id, score and 4 of the box")
        rows = rows.astype(np.float32)
        ends = np.flatnonzero(rows[:, 0] < 0)
        rows = rows[: ends[0]] if len(ends) else rows
        broken = ~np.isfinite(rows[:, 0])
        rows[broken, 2] = np.nan  # a detection of nobody knows which image is counted as not finite
        rows = rows[(rows[:, 0] == index) | broken]
        picked = rows[not_below(rows[:, 2], score)]
        best = picked[:, 2].copy()
        label = class_ids_to_labels(head, picked[:, 1], best, self._labels)
        boxes = read_boxes(head, self._spec, picked[:, 3:7], "xyxy", normalized=True)
        return finish(head, boxes, best, label, score)
