"""Ground truth files, and labels that meet categories by name."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.authoring.coco import (
    CocoBox,
    CocoCategory,
    CocoImage,
    CocoSet,
    match_labels,
    plain_name,
    read_coco,
)
from edge_runtime.errors import ConfigError

GOOD: dict[str, Any] = {
    "images": [{"id": 7, "file_name": "a.jpg", "width": 10, "height": 10, "license": 3}],
    "annotations": [{"id": 0, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "segmentation": []}],
    "categories": [{"id": 1, "name": "person", "supercategory": "none"}],
    "info": {"year": 2017},
}


def write(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({**GOOD, **changes}))
    return path


def test_a_coco_file_is_read(tmp_path: Path) -> None:
    truth = read_coco(write(tmp_path / "t.json"))
    assert truth.images[0].file_name == "a.jpg"
    assert truth.annotations[0].bbox == (1, 2, 3, 4)


def test_the_real_set(truth: Path) -> None:
    real = read_coco(truth / "coco_val128" / "instances.json")
    assert (len(real.images), len(real.annotations), len(real.categories)) == (128, 898, 80)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": []}, "lists no images"),
        ({"annotations": []}, "holds no boxes"),
        ({"categories": None}, "categories: .* \\(COCO format is needed\\)"),
        ({"images": [{"id": 7}]}, r"images\[0\].file_name: Field required"),
        ({"annotations": [{"image_id": 7, "category_id": 1}]}, r"annotations\[0\].bbox"),
        (
            {"annotations": [{**GOOD["annotations"][0], "image_id": 8}]},
            "belongs to image 8, which is not listed",
        ),
        ({"annotations": [{**GOOD["annotations"][0], "category_id": 2}]}, "category 2, which is not listed"),
        ({"images": GOOD["images"] * 2}, "image id 7 is given to 2 entries"),
        ({"categories": GOOD["categories"] * 3}, "category id 1 is given to 3 entries"),
        ({"annotations": [{**GOOD["annotations"][0], "bbox": [0, 0, 1]}]}, r"annotations\[0\].bbox"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_coco(write(tmp_path / "t.json", **changes))


def test_files_that_are_no_json_or_absent(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("<html>")
    with pytest.raises(ConfigError, match="Invalid JSON"):
        read_coco(tmp_path / "t.json")
    with pytest.raises(ConfigError, match="No such file"):
        read_coco(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_coco(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="cannot be read: is a pipe, not a file"):
        read_coco(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="cannot be read: is a character device, not a file"):
        read_coco(Path("/dev/zero"))


def truth_of(categories: dict[int, str], annotated: list[int]) -> CocoSet:
    return CocoSet(
        images=(CocoImage(id=1, file_name="a.jpg"),),
        annotations=tuple(CocoBox(image_id=1, category_id=number, bbox=(0, 0, 5, 5)) for number in annotated),
        categories=tuple(CocoCategory(id=number, name=name) for number, name in categories.items()),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TV-Monitor", "tv"),
        ("pottedplant", "potted plant"),
        ("Potted_Plant", "potted plant"),
        ("aeroplane", "airplane"),
        ("hair dryer", "hair drier"),
        ("Person ", "person"),
    ],
)
def test_spellings(one: str, other: str) -> None:
    assert plain_name(one) == plain_name(other)


def test_ids_with_gaps_and_from_zero_give_the_same_match() -> None:
    labels = ("person", "bicycle", "stop sign")
    for ids in ((1, 2, 13), (0, 1, 2), (5, 4, 3)):
        categories = dict(zip(ids, labels, strict=True))
        scored = match_labels(labels, truth_of(categories, list(ids)), ())
        assert scored.category_of_label == dict(enumerate(ids))
        assert scored.categories == categories


def test_labels_beyond_the_annotations_are_not_scored() -> None:
    truth = truth_of({1: "person", 2: "car", 3: "objects"}, [1])
    scored = match_labels(("background", "car", "person", "N/A", "N/A"), truth, ())
    assert scored.category_of_label == {2: 1}
    assert scored.categories == {1: "person"}


def test_chosen_classes() -> None:
    truth = truth_of({1: "person", 2: "car", 3: "dog"}, [1, 2, 3])
    assert match_labels(("person",), truth, ("Person",)).category_of_label == {0: 1}
    with pytest.raises(ConfigError, match="no category 'cat'; they have 'person', 'car', 'dog'"):
        match_labels(("person",), truth, ("person", "cat"))
    with pytest.raises(ConfigError, match=r"no label for 'car'.*--classes person"):
        match_labels(("person",), truth, ("person", "car"))


def test_label_sets_that_do_not_match() -> None:
    truth = truth_of({1: "person", 2: "car", 3: "dog", 4: "cat", 5: "bus", 6: "cup"}, [1, 2, 3, 4, 5, 6])
    with pytest.raises(ConfigError, match=r"match none of the annotated categories .*'cat' and 2 more"):
        match_labels(("face",), truth, ())
    with pytest.raises(ConfigError, match="no label for 'dog', 'cat', 'bus', 'cup': score what it knows"):
        match_labels(("car", "person"), truth, ())


def test_two_categories_of_one_name() -> None:
    with pytest.raises(ConfigError, match="two categories called 'Person'"):
        match_labels(("person",), truth_of({1: "person", 2: "Person"}, [1, 2]), ())
    # the unused one of a pair does not matter (exports name the whole set as a category of its own)
    scored = match_labels(("person",), truth_of({0: "person", 2: "person"}, [2]), ())
    assert scored.category_of_label == {0: 2}
