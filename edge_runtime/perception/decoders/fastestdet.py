"""FastestDet: one feature map, objectness, a tanh offset and a sigmoid size.

Layout (dog-qiuqiu/FastestDet `utils/tool.py: handle_preds`): (B, 5 + C, H, W) with the channels
`objectness, tx, ty, tw, th, class scores`, scores as probabilities. Then `cx = (column + tanh tx) / W` and
`w = sigmoid tw` of the input, and score = objectness^0.6 x class^0.4.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import sigmoid, to_xyxy
from edge_runtime.perception.decoders.layout import as_float32, image_of, named, require_outputs, shape_text
from edge_runtime.perception.decoders.selection import best_class, finish, not_below

_OBJECTNESS_POWER, _CLASS_POWER = 0.6, 0.4


class FastestDetDecoder:
    """One feature map."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._labels = head, labels
        self._first = 5 + head.first_class_id
        self._size = np.array([spec.width, spec.height], np.float32)

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head = self._head
        require_outputs(head, outputs, (1,), "one feature map of objectness, boxes and classes")
        cube = image_of(head, outputs, 0, index, 3)
        if cube.shape[0] != self._first + self._labels:
            raise DecodeError(
                f"{head.family}: {named(head, 0)} has the shape {shape_text(outputs[0])}, but it must have "
                f"{self._first + self._labels} channels (objectness, 4 of the box and {self._labels} classes): "
                "the label map does not fit the model"
            )
        rows, columns = cube.shape[1:]
        flat = cube.reshape(cube.shape[0], -1)
        with np.errstate(over="ignore", invalid="ignore"):
            # class <= 1, so objectness^0.6 bounds the score; a hair less, for the rounding of the power.
            kept = not_below(flat[0], score ** (1 / _OBJECTNESS_POWER) * 0.999)
            picked = as_float32(flat[:, kept]).T
            best, label = best_class(picked[:, self._first :])
            # Quantised outputs dip below 0, where a power has no value; NaN stays NaN.
            objectness, best = np.maximum(picked[:, 0], 0), np.maximum(best, 0)
            best = np.power(objectness, _OBJECTNESS_POWER) * np.power(best, _CLASS_POWER)
            cell = np.stack([kept % columns, kept // columns], 1).astype(np.float32)
            cells = np.array([columns, rows], np.float32)
            center = (cell + np.tanh(picked[:, 1:3])) / cells * self._size
            size = sigmoid(picked[:, 3:5]) * self._size
            boxes = to_xyxy(np.concatenate([center, size], 1), "cxcywh")
            return finish(head, boxes, best, label, score)
