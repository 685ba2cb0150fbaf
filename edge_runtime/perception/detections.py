"""Detections and tracks: one typed record of numpy arrays through the whole pipeline."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Detections:
    """What a model saw in one frame, in source pixels after rotation.

    Attributes:
        xyxy: (N, 4) float32, corners x1, y1, x2, y2, clipped to the frame.
        score: (N,) float32 in 0..1.
        label: (N,) int64, index into the model's label map.
        nonfinite: candidates dropped because a coordinate or a score was NaN or infinite.
    """

    xyxy: FloatArray
    score: FloatArray
    label: IntArray
    nonfinite: int = 0

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def empty(cls, nonfinite: int = 0) -> "Detections":
        """Nothing detected, which is an answer: a failed inference is never this."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64), nonfinite)

    def select(self, index: IntArray | BoolArray) -> "Detections":
        """The detections at `index` (integers or a mask), in that order."""
        return Detections(self.xyxy[index], self.score[index], self.label[index], self.nonfinite)


@dataclass(frozen=True, slots=True)
class Tracks:
    """Confirmed tracks after one tracker step, in source pixels.

    Attributes:
        track_id: (N,) int64, >= 1, unique within (source, epoch, model), deterministic.
        xyxy: (N, 4) float32; the detection's box where `seen`, else the predicted one.
        score: (N,) float32, score of the last matched detection.
        label: (N,) int64.
        seen: (N,) bool, whether a detection of this very frame supports the track; False is coasting.
    """

    track_id: IntArray
    xyxy: FloatArray
    score: FloatArray
    label: IntArray
    seen: BoolArray

    def __len__(self) -> int:
        return len(self.track_id)

    @classmethod
    def empty(cls) -> "Tracks":
        """No track."""
        return cls(
            np.zeros(0, np.int64),
            np.zeros((0, 4), np.float32),
            np.zeros(0, np.float32),
            np.zeros(0, np.int64),
            np.zeros(0, np.bool_),
        )
