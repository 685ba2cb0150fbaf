"""Detection, identity and counting on the pedestrian clip with ground truth.

The short form feeds the ground truth itself, and the first seconds with the model; the trials look at the whole
clip. What is compared with what, and every setting, is in docs/decisions/0040-tracker.md: none was chosen here.
"""

import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.authoring.average_precision import average_precision
from edge_runtime.authoring.coco import CocoBox, Scored
from edge_runtime.authoring.evaluate import EVALUATION_NMS_IOU, EVALUATION_SCORE
from edge_runtime.config.node import TrackingConfig
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.tracking import TrackerSettings, settings_for
from tests.bench.bench_tracker import save
from tests.bench.environments import ROOT, peers
from tests.rigs import coco_detectors
from tests.scoring import scene as scenes
from tests.scoring import vtest
from tests.scoring.idf1 import score
from tests.scoring.mot import Rows

SCENE = Path(__file__).resolve().parent.parent / "data" / "vtest_scene.json"
INTERVAL_S = vtest.INTERVAL_NS / 1e9
SLICE = 60
SETTINGS = {
    "published": TrackerSettings(),
    "of the runtime": settings_for(TrackingConfig(), score=0.25),  # both packages' own threshold
}

Detect = Callable[[str], Sequence[Detections]]


@pytest.fixture(scope="module")
def scene() -> scenes.Scene:
    return scenes.load(SCENE)


@pytest.fixture(scope="module")
def people(truth: Path) -> Rows:
    return vtest.truth(truth)


@pytest.fixture(scope="module")
def perfect(people: Rows) -> list[Detections]:
    """The ground truth as a detector would give it."""
    boxes = vtest.clipped(people.xyxy)
    return vtest.as_detections(Rows(people.frame, people.identity, boxes, np.ones(len(people))))


@pytest.fixture(scope="module")
def detect(onnx_models: Path, media: Path, truth: Path) -> Detect:
    """Detections of the whole clip by source, each made once."""

    @cache
    def detections(source: str) -> Sequence[Detections]:
        if source == "public":
            return vtest.public_detections(truth)
        detector = coco_detectors.load(onnx_models, source, score=TrackerSettings().low)
        return vtest.detect(detector, media / "vtest.avi")

    return detections


# On the ground truth


def test_counts_on_perfect_detections_are_those_of_the_truth(
    scene: scenes.Scene, people: Rows, perfect: list[Detections]
) -> None:
    """A certain detection needs no second one, and a perfect detector no coasting."""
    certain = TrackerSettings(confirm=1, coast=0)
    counted = scenes.watch(scene, vtest.follow(perfect, certain), INTERVAL_S)
    assert counted == scenes.expected(scene, people, vtest.FRAMES, INTERVAL_S)
    assert sum(counted.crossings.values()) == 86


def test_with_the_defaults_only_the_first_sighting_of_each_person_is_missing(
    scene: scenes.Scene, people: Rows, perfect: list[Detections]
) -> None:
    counted = scenes.watch(scene, vtest.follow(perfect), INTERVAL_S)
    first = np.array([people.frame[people.identity == identity].min() for identity in people.identity])
    confirmed = people.select(people.frame > first)
    expected = scenes.expected(scene, confirmed, vtest.FRAMES, INTERVAL_S)
    assert counted.crossings == expected.crossings
    assert counted.mean_occupancy() == pytest.approx(expected.mean_occupancy(), rel=0.01)


def test_every_person_of_the_truth_keeps_one_id(people: Rows, perfect: list[Detections]) -> None:
    """But for those who walk through each other: boxes are all that this kind of tracker sees."""
    tracks = vtest.as_rows(vtest.follow(perfect))
    assert score(people, tracks).idf1 > 0.9


def test_lines_need_the_dead_band_and_the_debounce(people: Rows, scene: scenes.Scene) -> None:
    """Without them the truth itself counts people who sway on a line."""
    line = next(one for one in scene.lines if one.name == "west")
    bare = line.model_copy(update={"dead_band": 0.0, "debounce": 0.0})
    counts = [
        sum(
            len(scenes.crossed(path, one, one.dead_band * scene.height, INTERVAL_S))
            for path in scenes.paths(people).values()
        )
        for one in (line, bare)
    ]
    assert counts == [22, 27]


def test_identities_on_the_public_detections(truth: Path, people: Rows) -> None:
    tracks = vtest.as_rows(vtest.follow(vtest.public_detections(truth)))
    assert score(people.counted(), tracks).idf1 > 0.5


# With a model


def test_first_seconds_with_a_model(
    onnx_models: Path, media: Path, people: Rows, scene: scenes.Scene
) -> None:
    """Coarse: in these seconds one of four people walks half hidden, too faint to begin a track."""
    detector = coco_detectors.load(onnx_models, "yolox_nano", score=TrackerSettings().low)
    found = vtest.detect(detector, media / "vtest.avi", SLICE)
    tracks = vtest.follow(found)
    counted = scenes.watch(scene, tracks, INTERVAL_S)
    here = people.select(people.frame <= SLICE)
    expected = scenes.expected(scene, here, SLICE, INTERVAL_S)
    assert abs(sum(counted.crossings.values()) - sum(expected.crossings.values())) <= 1
    assert counted.mean_occupancy() == pytest.approx(expected.mean_occupancy(), rel=0.25)
    assert precision(found, here) > 0.75
    assert score(here.counted(), vtest.as_rows(tracks)).idf1 > 0.6


@pytest.mark.trial
def test_average_precision_of_persons(onnx_models: Path, media: Path, people: Rows) -> None:
    detector = coco_detectors.load(
        onnx_models, "yolox_nano", score=EVALUATION_SCORE, nms_iou=EVALUATION_NMS_IOU
    )
    found = vtest.detect(detector, media / "vtest.avi")
    at_50 = precision(found, people)
    print(f"\nyolox_nano: person AP50 {at_50:.4f}")
    assert at_50 >= 0.90


@pytest.mark.trial
@pytest.mark.timeout(900)
@pytest.mark.parametrize("settings", SETTINGS)
def test_identities_against_the_other_tracker(
    settings: str, detect: Detect, people: Rows, tmp_path: Path
) -> None:
    ours, theirs = [], []
    counted = people.counted()
    print(f"\n{'IDF1':<12} {'ours':>7} {'trackers':>9}   settings {settings}")
    for source in ("yolox_nano", "yolov8n", "public"):
        found = list(detect(source))
        ours.append(score(counted, vtest.as_rows(vtest.follow(found, SETTINGS[settings]))).idf1)
        theirs.append(score(counted, follow_with_peer(found, SETTINGS[settings], tmp_path)).idf1)
        print(f"{source:<12} {ours[-1]:7.4f} {theirs[-1]:9.4f}")
    print(f"{'mean':<12} {np.mean(ours):7.4f} {np.mean(theirs):9.4f}")
    assert np.mean(ours) >= np.mean(theirs)


@pytest.mark.trial
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("source", ["yolox_nano", "yolov8n", "public"])
def test_counts_with_real_detections(
    source: str, settings: str, detect: Detect, people: Rows, scene: scenes.Scene
) -> None:
    counted = scenes.watch(scene, vtest.follow(detect(source), SETTINGS[settings]), INTERVAL_S)
    expected = scenes.expected(scene, people, vtest.FRAMES, INTERVAL_S)
    print(f"\n{source}, settings {settings}: crossings {describe(counted)} for {describe(expected)}")
    pooled = sum(expected.crossings.values())
    assert sum(counted.crossings.values()) == pytest.approx(pooled, rel=0.1)
    assert counted.mean_occupancy() == pytest.approx(expected.mean_occupancy(), rel=0.1)


def describe(counts: scenes.Counts) -> str:
    return f"{sum(counts.crossings.values())}, mean occupancy {counts.mean_occupancy():.3f}"


def precision(found: Sequence[Detections], people: Rows) -> float:
    """AP50 of persons over all people of the truth, by pycocotools."""
    boxes = [
        CocoBox(image_id=int(frame), category_id=1, bbox=(x1, y1, x2 - x1, y2 - y1))
        for frame, (x1, y1, x2, y2) in zip(people.frame, people.xyxy.tolist(), strict=True)
    ]
    scored = Scored(categories={1: "person"}, category_of_label={vtest.PERSON: 1})
    return average_precision(boxes, dict(enumerate(found, start=1)), scored).at_50


def follow_with_peer(found: list[Detections], settings: TrackerSettings, folder: Path) -> Rows:
    """The same detections through ByteTrack of `trackers`, in its own environment."""
    given, tracked = folder / "detections.npz", folder / "tracks.npz"
    save(given, found)
    command = [str(peers()), "-m", "tests.bench.peers.bytetrack", "follow", str(given), str(tracked)]
    thresholds = [str(settings.high), str(settings.new)]
    subprocess.run([*command, *thresholds], check=True, capture_output=True, cwd=ROOT)
    table = np.load(tracked)
    return Rows(table["frame"], table["identity"], table["xyxy"], table["score"].astype(np.float64))
