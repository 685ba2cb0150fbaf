"""YOLOv5 kind: boxes, objectness and class scores in one tensor.

Layout (ultralytics/yolov5 `export.py`, `Detect.forward` with `export=False`; YOLOv7 without end-to-end NMS and
YOLOX exported with `--decode_in_inference` are the same): (B, N, 5 + C), each row
`cx, cy, w, h, objectness, class scores`, box in model pixels, all scores after a sigmoid; score = objectness x
class. N is 3 anchors x cells, but nothing here depends on it.

Without its grid (`Detect` exported for other toolchains): one tensor per stride, (B, A, H, W, 5 + C) or
(B, A x (5 + C), H, W), before the sigmoid; the manifest gives the anchors. Then
`xy = (2 sigmoid - 0.5 + cell) stride`, `wh = (2 sigmoid)^2 anchor` (YOLOv5 issue #471, Detect.forward).
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import activate, before_sigmoid, read_boxes, sigmoid, to_xyxy
from edge_runtime.perception.decoders.grid import cells, stride_of_level
from edge_runtime.perception.decoders.layout import (
    as_float32,
    image_of,
    named,
    require_outputs,
    rows_of,
    shape_text,
)
from edge_runtime.perception.decoders.selection import best_class, finish, not_below
from edge_runtime.perception.detections import FloatArray


class YoloV5Decoder:
    """One tensor of decoded boxes."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._first = 5 + head.first_class_id
        self._channels = self._first + labels
        self._activation = head.activation or "none"

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (1,), "one tensor of boxes, objectness and classes")
        rows = rows_of(
            head,
            image_of(head, outputs, 0, index, 2),
            0,
            self._channels,
            f"4 of the box, objectness and {self._labels} classes",
        )
        with np.errstate(over="ignore", invalid="ignore"):
            # score = objectness x class <= objectness: the first column alone decides what can matter.
            limit = before_sigmoid(score) if self._activation == "sigmoid" else score
            picked = as_float32(rows[not_below(rows[:, 4], limit)])
            confidence = activate(picked[:, 4:], self._activation)
            best, label = best_class(confidence[:, self._first - 4 :] * confidence[:, :1])
            boxes = read_boxes(head, self._spec, picked[:, :4], "cxcywh", normalized=False)
            return finish(head, boxes, best, label, score)


class YoloV5GridDecoder:
    """One tensor per stride, boxes still relative to cells and anchors."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec = head, spec
        self._first = 5 + head.first_class_id
        self._channels = self._first + labels
        self._anchors = [np.array(sizes, np.float32).reshape(-1, 2) for sizes in head.anchors]

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (len(self._anchors),), "one tensor per stride, finest first")
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [self._level(outputs, level, index, score) for level in range(len(outputs))]
            boxes, confidence = (np.concatenate(part) for part in zip(*parts, strict=True))
            best, label = best_class(confidence[:, self._first - 4 :] * confidence[:, :1])
            return finish(head, boxes, best, label, score)

    def _level(
        self, outputs: Sequence[Tensor], level: int, index: int, score: float
    ) -> tuple[FloatArray, FloatArray]:
        """Boxes in model pixels, and objectness with class scores, of the cells of one stride."""
        cube = self._cells_last(outputs, level, index)
        anchors, rows, columns = cube.shape[:3]
        stride = stride_of_level(self._head, self._spec, level, rows * columns)
        if (rows, columns) != cells(self._spec, stride):
            raise DecodeError(
                f"{self._head.family}: {named(self._head, level)} has {rows}x{columns} cells, which do not "
                f"fit a {self._spec.width}x{self._spec.height} input"
            )
        flat = cube.reshape(-1, self._channels)
        kept = not_below(flat[:, 4], before_sigmoid(score))
        values = sigmoid(as_float32(flat[kept]))
        anchor, row, column = np.unravel_index(kept, (anchors, rows, columns))
        corner = np.stack([column, row], 1).astype(np.float32)
        center = (values[:, :2] * 2 - np.float32(0.5) + corner) * np.float32(stride)
        size = np.square(values[:, 2:4] * 2) * self._anchors[level][anchor]
        return to_xyxy(np.concatenate([center, size], 1), "cxcywh"), values[:, 4:]

    def _cells_last(self, outputs: Sequence[Tensor], level: int, index: int) -> Tensor:
        """The level as (A, H, W, channels)."""
        anchors = len(self._anchors[level])
        if outputs[level].ndim == 5:
            cube = image_of(self._head, outputs, level, index, 4)
            if cube.shape[0] == anchors and cube.shape[3] == self._channels:
                return cube
        else:
            flat = image_of(self._head, outputs, level, index, 3)
            if flat.shape[0] == anchors * self._channels:
                cube = flat.reshape(anchors, self._channels, *flat.shape[1:])
                return np.moveaxis(cube, 1, 3)
        raise DecodeError(
            f"{self._head.family}: {named(self._head, level)} has the shape {shape_text(outputs[level])}, "
            f"which does not hold {anchors} anchors of {self._channels} channels per cell"
        )
