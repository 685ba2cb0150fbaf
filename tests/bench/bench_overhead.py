"""Everything but the model and the video decoding, per frame, on one core.

    python -m tests.bench.bench_overhead [--frames N]

A 768x576 source, a 640 input, 20 objects that walk and jitter, each seen by five cells of the head. Budget: at most
2.5 ms median for preprocessing, decoding, suppression, the inverse letterbox, tracking and six rules together, and
1.1 ms for preprocessing alone. OpenCV's `blobFromImage` runs in the same loop for comparison.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import cv2
import numpy as np

from edge_runtime.clock import SystemClock
from edge_runtime.config.rules import (
    AbsenceRule,
    CountRule,
    DwellRule,
    LineRule,
    OccupancyRule,
    RuleConfig,
    ZoneRule,
)
from edge_runtime.events import EventDesk
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders import Candidates, make_decoder
from edge_runtime.perception.detections import Detections, FloatArray
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.nms import class_aware_nms
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.perception.tracking import Tracker
from edge_runtime.sources.frame import Frame, Image

WIDTH, HEIGHT, INPUT, CLASSES, OBJECTS, CELLS_PER_OBJECT = 768, 576, 640, 80, 20, 5
SCORE, NMS_IOU, LIMIT = 0.25, 0.45, 300
SPEC = InputSpec(name="images", height=INPUT, width=INPUT, scale=1 / 255)
WARM_UP = 20
LABELS = ("person", "bicycle", "car")
ZONE = ((0.1, 0.2), (0.6, 0.1), (0.9, 0.5), (0.7, 0.9), (0.5, 0.6), (0.2, 0.9))
RULES: tuple[RuleConfig, ...] = (
    ZoneRule(name="zone", kind="zone", polygon=ZONE, on=("enter", "leave")),
    OccupancyRule(name="occupancy", kind="occupancy", polygon=ZONE, at_least=4, clear_at=2),
    LineRule(name="line", kind="line", line=((0.1, 0.5), (0.9, 0.6))),
    DwellRule(name="dwell", kind="dwell", polygon=ZONE, seconds=3),
    AbsenceRule(name="absence", kind="absence", polygon=ZONE, seconds=3),
    CountRule(name="count", kind="count", polygon=ZONE, at_least=30, window=60),
)


def walks(frames: int, seed: int) -> list[FloatArray]:
    """(20, 4) cx, cy, w, h in model pixels for each frame."""
    random = np.random.default_rng(seed)
    center = random.uniform((60, 140), (580, 500), (OBJECTS, 2))
    size = random.uniform((20, 45), (45, 110), (OBJECTS, 2))
    found = []
    for _ in range(frames):
        center = np.clip(center + random.normal(0, 2, center.shape), (40, 120), (600, 520))
        found.append(np.concatenate([center, size], 1).astype(np.float32))
    return found


def yolov8(boxes: FloatArray, random: np.random.Generator) -> Tensor:
    """(1, 84, 8400) with each box in a few neighbouring cells."""
    output = np.empty((1, 4 + CLASSES, 8400), np.float32)
    output[0, :4] = random.random((4, 8400)) * INPUT
    output[0, 4:] = random.random((CLASSES, 8400)) * 0.1
    for number, box in enumerate(boxes):
        for near in range(CELLS_PER_OBJECT):
            place = 400 * number + near
            output[0, :4, place] = box + random.normal(0, 1, 4)
            output[0, 4 + number % len(LABELS), place] = 0.9 - 0.05 * near
    return output


def yolov5(boxes: FloatArray, random: np.random.Generator) -> Tensor:
    """(1, 25200, 85)."""
    output = np.empty((1, 25200, 5 + CLASSES), np.float32)
    output[0, :, :4] = random.random((25200, 4)) * INPUT
    output[0, :, 4:] = random.random((25200, 1 + CLASSES)) * 0.1
    for number, box in enumerate(boxes):
        for near in range(CELLS_PER_OBJECT):
            place = 1200 * number + near
            output[0, place, :4] = box + random.normal(0, 1, 4)
            output[0, place, 4] = 0.95
            output[0, place, 5 + number % len(LABELS)] = 0.9 - 0.05 * near
    return output


HEADS: dict[str, tuple[HeadSpec, Callable[[Tensor], Tensor], Callable[..., Tensor]]] = {
    "yolov8 84x8400": (HeadSpec(family="yolov8", outputs=("o",)), lambda tensor: tensor, yolov8),
    "yolov8 8400x84": (
        HeadSpec(family="yolov8", outputs=("o",)),
        lambda tensor: np.ascontiguousarray(tensor.transpose(0, 2, 1)),
        yolov8,
    ),
    "yolov8 fp16": (
        HeadSpec(family="yolov8", outputs=("o",)),
        lambda tensor: tensor.astype(np.float16),
        yolov8,
    ),
    "yolov5 25200x85": (HeadSpec(family="yolov5", outputs=("o",)), lambda tensor: tensor, yolov5),
    "yolov5 fp16": (
        HeadSpec(family="yolov5", outputs=("o",)),
        lambda tensor: tensor.astype(np.float16),
        yolov5,
    ),
}


class Times:
    """Durations by stage, by the given clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.spent: dict[str, list[float]] = {}
        self._clock = clock

    def run(self, stage: str, call: Callable[[], Any]) -> Any:
        """Call it and note how long it took."""
        start = self._clock()
        result = call()
        self.spent.setdefault(stage, []).append(self._clock() - start)
        return result

    def median_ms(self, stage: str) -> float:
        """Without the warm-up."""
        return statistics.median(self.spent[stage][WARM_UP:]) * 1e3


class Road:
    """The stages of one frame in their order; a new stage is one more line here."""

    def __init__(self, head: HeadSpec) -> None:
        self.preprocessor = Preprocessor(SPEC)
        self.tensor = self.preprocessor.allocate(1)
        self.decoder = make_decoder(head, SPEC, CLASSES)
        self.tracker = Tracker()
        self.clock = SystemClock()
        self.desk = EventDesk("bench", RULES, LABELS, config_digest="sha256:" + "0" * 64, clock=self.clock)
        self.geometry: Letterbox | None = None

    def step(self, image: Image, output: Tensor, index: int, times: Times) -> int:
        """One frame; how many objects were found."""
        geometry = times.run(
            "preprocess", lambda: self.preprocessor.fill(image, self.tensor, 0, self.geometry)
        )
        self.geometry = geometry
        found: Candidates = times.run("decode", lambda: self.decoder.decode([output], 0, SCORE))
        kept = times.run(
            "suppress", lambda: class_aware_nms(found.xyxy, found.score, found.label, NMS_IOU, LIMIT)
        )
        detections: Detections = times.run(
            "inverse",
            lambda: Detections(geometry.to_source(found.xyxy[kept]), found.score[kept], found.label[kept]),
        )
        media_ns = index * 100_000_000
        tracks = times.run("track", lambda: self.tracker.update(detections, media_ns))
        frame = Frame(image, "bench", 0, index, self.clock.monotonic_ns(), media_ns)
        times.run("rules", lambda: self.desk.observe(frame, tracks))
        return len(detections)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--cpu", action="store_true", help="CPU time, where something else runs meanwhile")
    options = parser.parse_args()
    frames, clock = options.frames, time.thread_time if options.cpu else time.perf_counter
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cv2.setNumThreads(1)
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8) for _ in range(8)]
    scenes = walks(frames + WARM_UP, seed=1)
    ratios: list[float] = []
    stages = ("preprocess", "decode", "suppress", "inverse", "track", "rules")
    print(f"{'median ms, 20 objects':<22}" + "".join(f"{stage:>11}" for stage in (*stages, "sum")))
    for name, (head, convert, make) in HEADS.items():
        outputs = [convert(make(scene, random)) for scene in scenes[:: max(1, len(scenes) // 16)]]
        road, times, objects = Road(head), Times(clock), 0
        for index in range(frames + WARM_UP):
            image = images[index % len(images)]
            objects += road.step(image, outputs[index * len(outputs) // len(scenes)], index, times)
            times.run("blob", partial(cv2.dnn.blobFromImage, image, 1 / 255, (INPUT, 480), swapRB=True))
        medians = [times.median_ms(stage) for stage in stages]
        print(f"{name:<22}" + "".join(f"{value:>11.3f}" for value in (*medians, sum(medians))))
        assert objects == OBJECTS * (frames + WARM_UP)
        ratios.append(times.median_ms("blob") / medians[0])
    print(f"blobFromImage takes {statistics.median(ratios):.1f} times as long as this preprocessing")


if __name__ == "__main__":
    main()
