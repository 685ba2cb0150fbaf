"""Class names from files, metadata, and guesses that say so."""

from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.authoring.findings import Confidence
from edge_runtime.authoring.graph import GraphFacts, read_graph
from edge_runtime.authoring.label_sets import COCO, VOC, coco_by_category_id
from edge_runtime.authoring.labels import choose_labels, metadata_labels, read_labels, summary
from edge_runtime.errors import PackageError


@pytest.fixture(scope="module")
def silent(onnx_models: Path) -> GraphFacts:
    """A graph without metadata."""
    return read_graph(onnx_models / "ultraface_rfb_320x240.onnx")


def test_our_coco_is_that_of_the_shared_list(onnx_models: Path) -> None:
    assert read_labels(onnx_models / "coco80.txt") == COCO


def test_coco_ids_have_gaps() -> None:
    names = coco_by_category_id()
    assert len(names) == 90
    assert names[0] == "person"
    assert names[12 - 1] == "unused-12"
    assert names[13 - 1] == "stop sign"
    assert names[90 - 1] == "toothbrush"
    assert [name for name in names if not name.startswith("unused")] == list(COCO)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", "cat\n\n dog \r\nbig  bird\n", ("cat", "dog", "big bird")),
        ("a.txt", "\ufeffcat\ndog", ("cat", "dog")),
        ("a.yaml", "names:\n  0: cat\n  1: dog\n", ("cat", "dog")),
        ("a.yml", "names: [cat, dog]", ("cat", "dog")),
        ("a.json", '["cat", "dog"]', ("cat", "dog")),
        ("a.json", '{"1": "dog", "0": "cat"}', ("cat", "dog")),
    ],
)
def test_label_files_are_read(tmp_path: Path, name: str, text: str, expected: tuple[str, ...]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_labels(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.txt", b"", "no list of class names"),
        ("a.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("a.yaml", b"a: [", "not valid YAML"),
        ("a.yaml", b"names: {0: cat, 5: dog}", "no list of class names"),
        ("a.json", b"[1.5, null]", "no list of class names"),
        ("a.json", b'["cat", " "]', "empty name"),
    ],
)
def test_label_files_that_are_none_are_refused(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PackageError, match=sentence):
        read_labels(tmp_path / name)
    with pytest.raises(PackageError, match="cannot be read"):
        read_labels(tmp_path / "absent.txt")


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"names": "{0: 'cat', 1: 'dog'}"}, ("cat", "dog")),
        ({"names": '["cat", "dog"]'}, ("cat", "dog")),
        ({"classes": "cat, dog"}, ("cat", "dog")),
        ({"class_names": "cat;dog"}, ("cat", "dog")),
        ({"names": "{1: 'cat', 2: 'dog'}"}, None),
        ({"stride": "32"}, None),
    ],
)
def test_metadata_are_read(
    silent: GraphFacts, metadata: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    assert metadata_labels(replace(silent, metadata=metadata)) == expected


def test_a_file_goes_before_metadata_and_metadata_before_a_guess(silent: GraphFacts) -> None:
    named = replace(silent, metadata={"names": "{0: 'cat', 1: 'dog'}"})
    given, found = choose_labels(named, ("a", "b"), 2, family="yolov8", stem="x")
    assert (given, found.confidence) == (("a", "b"), Confidence.SURE)
    stated, found = choose_labels(named, None, 2, family="yolov8", stem="x")
    assert (stated, found.confidence) == (("cat", "dog"), Confidence.SURE)
    guessed, found = choose_labels(silent, None, 2, family="yolov8", stem="x")
    assert guessed == ("class-0", "class-1")
    assert found.confidence is Confidence.GUESS
    assert "--labels FILE" in found.why


@pytest.mark.parametrize(
    ("classes", "family", "stem", "expected"),
    [
        (80, "yolox", "anything", COCO),
        (20, "yolov5", "anything", VOC),
        (90, "ssd", "anything", coco_by_category_id()),
        (1, "yunet", "anything", ("face",)),
        (1, "ssd", "ssdlite_pedestrian_300", ("person",)),
        (1, "yolov8", "helmets-v2", ("helmet",)),
        (1, "yolov8", "best", ("class-0",)),
    ],
)
def test_guesses(silent: GraphFacts, classes: int, family: str, stem: str, expected: tuple[str, ...]) -> None:
    names, found = choose_labels(silent, None, classes, family=family, stem=stem)
    assert names == expected
    assert found.confidence is Confidence.GUESS


def test_another_number_of_names_than_classes_is_refused(silent: GraphFacts) -> None:
    with pytest.raises(PackageError, match="the label file names 2 classes, but the head has 3"):
        choose_labels(silent, ("a", "b"), 3, family="yolov8", stem="x")
    named = replace(silent, metadata={"names": "{0: 'cat', 1: 'dog'}"})
    with pytest.raises(PackageError, match="metadata names 2 classes, but the head has 3"):
        choose_labels(named, None, 3, family="yolov8", stem="x")


def test_when_nothing_tells_the_number_a_label_file_is_asked_for(silent: GraphFacts) -> None:
    with pytest.raises(PackageError, match="give --labels FILE"):
        choose_labels(silent, None, None, family="ssd", stem="x")
    names, _ = choose_labels(silent, ("a", "b"), None, family="ssd", stem="x")
    assert names == ("a", "b")


def test_summaries_are_short() -> None:
    assert summary(("face",)) == "face"
    assert summary(("a", "b")) == "2 classes: a, b"
    assert summary(COCO) == "80 classes: person, bicycle, car, …"
