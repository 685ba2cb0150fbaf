"""What counts as recognised, as blind, and as a shifted label map: decided on drawn detections."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.authoring.label_sets import COCO
from edge_runtime.perception.detections import Detections
from edge_runtime.qualification.recognition import (
    Sighting,
    blind,
    known_objects,
    label_shift,
    look,
    mistaken,
    overlap,
    scenes_for,
    support,
)
from edge_runtime.qualification.scenes import reference_scenes
from edge_runtime.sources.frame import Image


class Oracle:
    """Finds every drawn object, under a label shifted by `shift`."""

    def __init__(self, labels: Sequence[str], shift: int = 0, score: float = 0.9, moved: float = 0.0) -> None:
        self.labels, self.shift, self.score, self.moved = labels, shift, score, moved

    def __call__(self, image: Image) -> Detections:
        drawn = next(scene for scene in reference_scenes() if scene.image is image)
        known = [item for item in drawn.objects if item.name in self.labels]
        boxes = np.array([item.xyxy for item in known], np.float32).reshape(-1, 4) + np.float32(self.moved)
        index = [(self.labels.index(item.name) + self.shift) % len(self.labels) for item in known]
        return Detections(boxes, np.full(len(known), self.score, np.float32), np.array(index, np.int64))


def test_a_model_that_sees_everything_is_not_blind() -> None:
    sightings = look(Oracle(COCO), COCO)
    assert {sighting.name for sighting in sightings} == {
        "stop sign",
        "traffic light",
        "clock",
        "person",
        "orange",
    }
    assert all(sighting.seen for sighting in sightings)
    assert support(sightings) == pytest.approx(5 * 0.9)
    assert not blind(sightings)
    assert label_shift(sightings) == 0


@pytest.mark.parametrize("shift", [-1, 1, 2, 11])
def test_a_shift_is_found_and_told(shift: int) -> None:
    sightings = look(Oracle(COCO, shift), COCO)
    assert label_shift(sightings) % len(COCO) == shift % len(COCO)
    assert "takes a drawn stop sign for" in mistaken(sightings, COCO)


@pytest.mark.parametrize("oracle", [Oracle(COCO, score=0.2), Oracle(COCO, moved=300.0)])
def test_weak_or_misplaced_detections_are_not_seen(oracle: Oracle) -> None:
    sightings = look(oracle, COCO)
    assert blind(sightings)
    assert label_shift(sightings) == 0


def sighting(name: str, score: float, rival: int | None = None, rival_score: float = 0.0) -> Sighting:
    return Sighting(name, 0, True, score, rival, rival_score)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [((), False), ((0.9,), False), ((0.1,), True), ((0.9, 0.1), False), ((0.9, 0.1, 0.1), True)],
)
def test_blind_is_less_than_half(scores: tuple[float, ...], expected: bool) -> None:
    assert blind([sighting(str(place), score) for place, score in enumerate(scores)]) is expected


def test_one_mistaken_object_is_no_shift() -> None:
    assert label_shift([sighting("clock", 0.0, 3, 0.9), sighting("person", 0.8)]) == 0
    assert label_shift([sighting("clock", 0.0, 3, 0.9), sighting("person", 0.0, 5, 0.9)]) == 0
    assert label_shift([sighting("clock", 0.0, 3, 0.9), sighting("person", 0.0, 3, 0.9)]) == 3


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("Pedestrian",), {"person"}),
        (("Stop_Sign", "traffic-light"), {"stop sign", "traffic light"}),
        (("FACE",), {"face"}),
        (("cat",), set()),
    ],
)
def test_labels_are_known_by_other_spellings(labels: tuple[str, ...], names: set[str]) -> None:
    assert set(known_objects(labels)) == names
    assert bool(scenes_for(labels)) is bool(names)


def test_labels_that_the_scenes_do_not_show_give_no_sighting() -> None:
    assert look(Oracle(("cat",)), ("cat",)) == []


box = st.tuples(*[st.floats(0, 600, width=32)] * 2, *[st.floats(1, 300, width=32)] * 2)


@given(box, box)
def test_overlap_is_symmetric_and_at_most_one(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> None:
    first = (a[0], a[1], a[0] + a[2], a[1] + a[3])
    second = (b[0], b[1], b[0] + b[2], b[1] + b[3])
    there = float(overlap(np.array([first], np.float32), second)[0])
    back = float(overlap(np.array([second], np.float32), first)[0])
    assert there == pytest.approx(back, abs=1e-4)
    assert 0 <= there <= 1.0001
    assert float(overlap(np.array([first], np.float32), first)[0]) == pytest.approx(1, abs=1e-3)
