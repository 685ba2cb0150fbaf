"""A camera's label map outlives its models: rules keep their meaning, however the next model numbers its labels."""

import numpy as np
import pytest

from edge_runtime.events import LabelBook, translated
from edge_runtime.perception.detections import Detections
from tests.rigs.events import MODEL, Camera, Seen, rule

OTHER = "sha256:" + "b" * 64


def detections(*labels: int) -> Detections:
    count = len(labels)
    return Detections(
        np.zeros((count, 4), np.float32), np.ones(count, np.float32), np.array(labels, np.int64), nonfinite=2
    )


@pytest.mark.parametrize(
    ("labels", "numbers", "expected"),
    [
        (("person", "bicycle", "car"), (0, 1, 2), (0, 1, 2)),
        (("person", "bicycle"), (0, 1), (0, 1)),
        (("car", "person", "bicycle"), (0, 1, 2), (2, 0, 1)),
        (("person", "cat", "car"), (0, 1, 2), (0, 3, 2)),
        (("cat", "dog"), (0, 1), (3, 4)),
    ],
)
def test_labels_become_the_cameras_by_name(
    labels: tuple[str, ...], numbers: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    book = LabelBook(("person", "bicycle", "car"))
    found = translated(detections(*numbers), book.translation(labels))
    assert tuple(found.label) == expected
    assert found.nonfinite == 2
    assert [book.names[number] for number in found.label] == [labels[number] for number in numbers]


def test_the_same_labels_cost_nothing() -> None:
    book = LabelBook(("person", "car"))
    assert book.translation(("person", "car")) is None
    seen = detections(0, 1)
    assert translated(seen, None) is seen


def test_numbers_that_were_given_stay() -> None:
    book = LabelBook(("person",))
    book.translation(("cat", "person"))
    assert book.translation(("person", "dog", "cat")) is not None
    assert book.names == ["person", "cat", "dog"]


def test_a_name_twice_is_one_label_of_the_camera() -> None:
    book = LabelBook(("n/a", "person", "n/a"))
    found = translated(detections(0, 1), book.translation(("person", "n/a")))
    assert tuple(found.label) == (1, 0)


BUSY = rule("occupancy", labels=["person"], at_least=1, hold=0)


def test_events_name_the_model_that_made_them() -> None:
    camera = Camera([BUSY])
    (started,) = camera.see(Seen(50, 50))
    camera.desk.seen_by(OTHER)
    (ended,) = camera.see()
    assert (started.model, ended.model) == (MODEL, OTHER)
    assert started.id == ended.id


def test_tracks_that_go_on_keep_a_stay_going() -> None:
    camera = Camera([rule("dwell", labels=["person"], seconds=1.0, polygon=[[0, 0], [1, 0], [1, 1], [0, 1]])])
    said = []
    for step in range(15):
        if step == 5:
            camera.desk.seen_by(OTHER, tracks_go_on=True)
        said += camera.see(Seen(50, 50))
    assert [(event.kind, event.model) for event in said] == [("dwell", OTHER)]


def test_a_stay_is_interrupted_where_tracks_start_anew() -> None:
    camera = Camera([rule("dwell", labels=["person"], seconds=0.3, polygon=[[0, 0], [1, 0], [1, 1], [0, 1]])])
    said = []
    for step in range(8):
        if step == 6:
            camera.desk.seen_by(OTHER, tracks_go_on=False)
        said += camera.see(Seen(50, 50))
    assert [event.state for event in said][-1] == "interrupted"
    assert said[-1].reason is not None
    assert "another model has taken over" in said[-1].reason
