"""Where each track has been for the last seconds."""

from collections import deque

import cv2
import numpy as np

from edge_runtime.annotation.palette import track_color
from edge_runtime.annotation.shapes import anchor_pixels
from edge_runtime.config.rules import Anchor
from edge_runtime.perception.detections import Tracks
from edge_runtime.sources.frame import Image

_MOST_POINTS = 256
_LEAST_STEP = 3


class Trails:
    """Anchor points of tracks over the last `seconds` of one epoch, bounded in number."""

    def __init__(self, seconds: float, anchor: Anchor = "bottom_center") -> None:
        self._anchor = anchor
        self._length_ns = int(seconds * 1e9)
        self._points: dict[int, deque[tuple[int, int, int]]] = {}

    def restart(self) -> None:
        """A new epoch: ids and time start again."""
        self._points.clear()

    def add(self, tracks: Tracks, media_ns: int) -> None:
        """Takes in one frame's tracks; forgets what is older than the trail is long."""
        points = anchor_pixels(tracks.xyxy, self._anchor)
        for track_id, (x, y) in zip(tracks.track_id.tolist(), points, strict=True):
            trail = self._points.setdefault(track_id, deque(maxlen=_MOST_POINTS))
            if trail and abs(trail[-1][1] - x) + abs(trail[-1][2] - y) < _LEAST_STEP:
                trail.append((media_ns, *trail.pop()[1:]))  # it stands still: one point, kept young
            else:
                trail.append((media_ns, x, y))
        oldest = media_ns - self._length_ns
        for track_id in list(self._points):
            trail = self._points[track_id]
            while trail and trail[0][0] < oldest:
                trail.popleft()
            if not trail:
                del self._points[track_id]

    def draw(self, image: Image, thickness: int) -> None:
        """Draws the trails in place, `thickness` pixels wide."""
        for track_id, trail in self._points.items():
            if len(trail) > 1:
                points = np.array([point[1:] for point in trail], np.int32)
                cv2.polylines(
                    image, [points], isClosed=False, color=track_color(track_id), thickness=thickness
                )
