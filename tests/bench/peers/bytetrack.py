"""The ByteTrack of `trackers` (Roboflow), beside ours. Runs in the bench-only environment.

    python -m tests.bench.peers.bytetrack follow DETECTIONS.npz TRACKS.npz HIGH NEW
    python -m tests.bench.peers.bytetrack race DETECTIONS.npz

Detections are arrays `frame` (from 1), `xyxy`, `score`, `label`. `follow` writes the tracks as `frame`, `identity`,
`xyxy`, `score`; `race` prints a JSON line with the milliseconds of every update of both.
"""

import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.perception.detections import Detections
from edge_runtime.perception.tracking import Tracker, TrackerSettings

FPS = 10.0
INTERVAL_NS = round(1e9 / FPS)


def load(path: Path) -> list[Detections]:
    """One record a frame."""
    table = np.load(path)
    last = int(table["frame"].max())
    return [
        Detections(table["xyxy"][here], table["score"][here], table["label"][here])
        for here in (np.flatnonzero(table["frame"] == frame) for frame in range(1, last + 1))
    ]


def peer(config: TrackerSettings) -> Any:
    """Their tracker with our thresholds; its gates and its filter as it brings them.

    `lost_track_buffer` counts frames of 30 per second and is scaled by `frame_rate`: 90 at 10 fps are 3 s.
    """
    from trackers import ByteTrackTracker

    return ByteTrackTracker(
        lost_track_buffer=round(config.lost * 30),
        frame_rate=FPS,
        track_activation_threshold=config.new,
        minimum_consecutive_frames=config.confirm,
        high_conf_det_threshold=config.high,
    )


def as_theirs(detections: Detections, low: float) -> Any:
    """Their record; `low` is applied here, because their tracker has no such threshold."""
    import supervision

    kept = detections.select(detections.score >= low)
    return supervision.Detections(xyxy=kept.xyxy, confidence=kept.score, class_id=kept.label)


def follow(detections: Sequence[Detections], out: Path, config: TrackerSettings) -> None:
    """Track, and write what has an identity."""
    tracker = peer(config)
    frames, identities, boxes, scores = [], [], [], []
    for frame, found in enumerate(detections, start=1):
        tracks = tracker.update(as_theirs(found, config.low))
        identity = np.asarray(tracks.tracker_id, np.int64)
        known = identity >= 0
        frames.append(np.full(int(known.sum()), frame))
        identities.append(identity[known])
        boxes.append(np.asarray(tracks.xyxy, np.float64)[known])
        scores.append(np.ones(int(known.sum())) if tracks.confidence is None else tracks.confidence[known])
    np.savez(
        out,
        frame=np.concatenate(frames),
        identity=np.concatenate(identities),
        xyxy=np.concatenate(boxes),
        score=np.concatenate(scores),
    )


def race(detections: Sequence[Detections]) -> dict[str, list[float]]:
    """Both update on the same frame, one after the other; who begins alternates."""
    config = TrackerSettings()
    ours, theirs = Tracker(config), peer(config)
    given = [as_theirs(found, config.low) for found in detections]
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}

    def our_turn(index: int) -> None:
        begun = time.perf_counter()
        ours.update(detections[index], index * INTERVAL_NS)
        spent["ours"].append((time.perf_counter() - begun) * 1e3)

    def their_turn(index: int) -> None:
        begun = time.perf_counter()
        theirs.update(given[index])
        spent["theirs"].append((time.perf_counter() - begun) * 1e3)

    for index in range(len(detections)):
        for turn in (our_turn, their_turn) if index % 2 else (their_turn, our_turn):
            turn(index)
    return spent


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # theirs, about its own parts
    if sys.argv[1] == "follow":
        thresholds = TrackerSettings(high=float(sys.argv[4]), new=float(sys.argv[5]))
        follow(load(Path(sys.argv[2])), Path(sys.argv[3]), thresholds)
    else:
        print(json.dumps(race(load(Path(sys.argv[2])))))
