"""Reads boxes with identities in the text format of MOTChallenge.

Columns: frame, identity (-1 for plain detections), left, top, width, height, score or flag, then world
coordinates that are not used (https://motchallenge.net/instructions/). The format says that pixels count from 1,
yet the field scores 0-based boxes against it unshifted (TrackEval, ByteTrack), and so does this module.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Boxes of a whole clip, one row each.

    Attributes:
        frame: (N,) int64, from 1.
        identity: (N,) int64.
        xyxy: (N, 4) float64 pixels.
        score: (N,) float64; of ground truth the flag, 0 for rows that do not count.
    """

    frame: Ints
    identity: Ints
    xyxy: Boxes
    score: Boxes

    def __len__(self) -> int:
        return len(self.frame)

    def select(self, mask: Mask) -> "Rows":
        """The rows where `mask` is true."""
        return Rows(self.frame[mask], self.identity[mask], self.xyxy[mask], self.score[mask])

    def at(self, frame: int) -> "Rows":
        """The rows of one frame."""
        return self.select(self.frame == frame)

    def counted(self) -> "Rows":
        """Ground truth without the rows that do not count."""
        return self.select(self.score != 0)


def read(path: Path) -> Rows:
    """The rows of a MOTChallenge text file."""
    table = np.loadtxt(path, delimiter=",", usecols=range(7), ndmin=2)
    corner = table[:, 2:4]
    return Rows(
        table[:, 0].astype(np.int64),
        table[:, 1].astype(np.int64),
        np.concatenate([corner, corner + table[:, 4:6]], axis=1),
        table[:, 6],
    )


def iou(first: Boxes, second: Boxes) -> Boxes:
    """Intersection over union of boxes (N, 4) and (M, 4) → (N, M); 0 for boxes without an area."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    overlap = np.clip(high - low, 0, None).prod(axis=2)
    areas = (first[:, 2:] - first[:, :2]).prod(axis=1)[:, None] + (second[:, 2:] - second[:, :2]).prod(axis=1)
    union = areas - overlap
    ratio: Boxes = np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)
    return ratio
