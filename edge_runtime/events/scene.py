"""One evaluated frame as all rules of a camera look at it: what several of them need is computed once."""

from collections.abc import Iterator
from itertools import compress

import numpy as np
import numpy.typing as npt

from edge_runtime.config.rules import Anchor
from edge_runtime.events.geometry import BoolArray, Region
from edge_runtime.events.timeline import Moment
from edge_runtime.geometry import Float64Array, anchor_points
from edge_runtime.perception.detections import Tracks


class Scene:
    """The tracks of one frame with their anchors and sizes.

    Rows without an identity (`track_id` < 1) or with a non-finite box are left out: an unidentified box
    counted as one object turned 7 crossings into 97 elsewhere (supervision #2578).

    Args:
        moment: when.
        width, height: of the frame in pixels.
        tracks: what the tracker says.
    """

    __slots__ = (
        "_anchors",
        "_coasting",
        "_fractions",
        "_inside",
        "_rows",
        "height",
        "ids",
        "label",
        "moment",
        "score",
        "seen_mask",
        "width",
        "xyxy",
    )

    def __init__(self, moment: Moment, width: int, height: int, tracks: Tracks) -> None:
        self.moment, self.width, self.height = moment, width, height
        track_id, xyxy = tracks.track_id, tracks.xyxy.astype(np.float64)
        self.label: npt.NDArray[np.int64] = tracks.label
        self.score: npt.NDArray[np.float32] = tracks.score
        self.seen_mask: BoolArray = tracks.seen
        valid = (track_id >= 1) & np.isfinite(xyxy).all(axis=1)
        if not valid.all():
            track_id, xyxy = track_id[valid], xyxy[valid]
            self.label, self.score = self.label[valid], self.score[valid]
            self.seen_mask = self.seen_mask[valid]
        self.xyxy: Float64Array = xyxy
        self.ids: list[int] = track_id.tolist()
        self._coasting: frozenset[int] | None = None
        self._anchors: dict[Anchor, Float64Array] = {}
        self._inside: dict[tuple[Region, Anchor], BoolArray] = {}
        self._fractions: tuple[Float64Array, Float64Array] | None = None
        self._rows: dict[int, int] | None = None

    @property
    def coasting(self) -> frozenset[int]:
        """Tracks that no detection of this frame supports."""
        if self._coasting is None:
            self._coasting = frozenset(compress(self.ids, (~self.seen_mask).tolist()))
        return self._coasting

    def where(self, mask: BoolArray) -> Iterator[int]:
        """The tracks at which a mask (N,) is true, in order."""
        return compress(self.ids, mask.tolist())

    def anchor(self, anchor: Anchor) -> Float64Array:
        """The point of each box that stands for the object: (3, N) homogeneous, px."""
        found = self._anchors.get(anchor)
        if found is None:
            found = self._anchors[anchor] = anchor_points(self.xyxy, anchor)
        return found

    def inside(self, region: Region, anchor: Anchor) -> BoolArray:
        """(N,) bool: whose anchor is in a region; rules often share a zone."""
        found = self._inside.get((region, anchor))
        if found is None:
            found = self._inside[region, anchor] = region.contains(self.anchor(anchor))
        return found

    def fractions(self) -> tuple[Float64Array, Float64Array]:
        """Height and area of each box as fractions of the frame's, each (N,)."""
        if self._fractions is None:
            size = self.xyxy[:, 2:] - self.xyxy[:, :2]
            height = size[:, 1] / self.height
            self._fractions = height, height * size[:, 0] / self.width
        return self._fractions

    def row(self, track: int) -> int | None:
        """The row of a track in this frame, or None."""
        if self._rows is None:
            self._rows = {track_id: row for row, track_id in enumerate(self.ids)}
        return self._rows.get(track)
