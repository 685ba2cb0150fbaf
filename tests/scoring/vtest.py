"""The pedestrian clip with ground truth (PETS09-S2L1): its boxes, detections from three sources, its tracks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np

from edge_runtime.perception.detections import Detections, Tracks
from edge_runtime.perception.detector import Detector
from edge_runtime.perception.tracking import Tracker, TrackerSettings
from edge_runtime.sources.frame import Image
from tests.scoring.mot import Boxes, Rows, read

FRAMES = 795
WIDTH, HEIGHT = 768, 576
INTERVAL_NS = 100_000_000
PERSON = 0
"""Index of `person` in the label map of COCO, which both models use."""

PUBLIC_FULL_SCORE = 100.0
"""The public detector's scores run from about 0 to 140; fixed beforehand: score / 100, clipped to 0..1."""


def truth(folder: Path) -> Rows:
    """Every person in every frame; rows that the benchmark does not count have score 0."""
    return read(folder / "vtest_PETS09-S2L1_mot15_gt.txt")


def public_detections(folder: Path) -> list[Detections]:
    """The detections that come with the benchmark, one record a frame."""
    rows = read(folder / "vtest_PETS09-S2L1_mot15_public_det.txt")
    score = np.clip(rows.score / PUBLIC_FULL_SCORE, 0, 1)
    return as_detections(Rows(rows.frame, rows.identity, clipped(rows.xyxy), score))


def clipped(xyxy: Boxes) -> Boxes:
    """Boxes within the picture, as a detector gives them."""
    return np.clip(xyxy, 0, (WIDTH, HEIGHT, WIDTH, HEIGHT))


def as_detections(rows: Rows, frames: int = FRAMES) -> list[Detections]:
    """Rows of persons as one record a frame."""
    return [
        Detections(
            here.xyxy.astype(np.float32),
            here.score.astype(np.float32),
            np.full(len(here), PERSON, np.int64),
        )
        for here in (rows.at(frame) for frame in range(1, frames + 1))
    ]


def pictures(clip: Path, frames: int = FRAMES) -> Iterator[Image]:
    """The first frames of the clip, BGR."""
    with av.open(str(clip)) as container:
        for index, frame in enumerate(container.decode(video=0)):
            if index == frames:
                return
            yield frame.to_ndarray(format="bgr24")


def detect(detector: Detector, clip: Path, frames: int = FRAMES) -> list[Detections]:
    """The persons that a model sees in each frame."""
    found = (detector.detect(picture) for picture in pictures(clip, frames))
    return [detections.select(detections.label == PERSON) for detections in found]


def follow(detections: Sequence[Detections], config: TrackerSettings | None = None) -> list[Tracks]:
    """The tracks of each frame."""
    tracker = Tracker(config)
    return [tracker.update(found, index * INTERVAL_NS) for index, found in enumerate(detections)]


def as_rows(tracks: Sequence[Tracks]) -> Rows:
    """What was seen, as rows to be scored; coasting tracks are left out."""
    return Rows(
        np.repeat(np.arange(1, len(tracks) + 1), [int(found.seen.sum()) for found in tracks]),
        np.concatenate([found.track_id[found.seen] for found in tracks]),
        np.concatenate([found.xyxy[found.seen] for found in tracks]).astype(np.float64),
        np.concatenate([found.score[found.seen] for found in tracks]).astype(np.float64),
    )
