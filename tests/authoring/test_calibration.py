"""Which pictures calibrate, how they are prepared, and that none of them is measured on."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_runtime.authoring.calibration import choose_pictures, held_out, pictures_of
from edge_runtime.authoring.coco import CocoSet, read_coco
from edge_runtime.authoring.evaluate import read_image
from edge_runtime.errors import ConfigError, ImageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.preprocess import Preprocessor

SPEC = InputSpec(name="images", height=64, width=96, color="rgb", scale=1 / 255)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten pictures, each of another gray, and a text."""
    pictures = tmp_path / "set" / "images"
    pictures.mkdir(parents=True)
    for number in range(10):
        cv2.imwrite(str(pictures / f"{number}.png"), np.full((48, 60, 3), number * 20, np.uint8))
    (pictures / "notes.txt").write_text("no picture")
    return pictures


@pytest.fixture
def annotations(folder: Path) -> Path:
    path = folder.parent / "truth.json"
    images = [{"id": n, "file_name": f"{n}.png", "width": 60, "height": 48} for n in range(10)]
    boxes = [{"image_id": n, "category_id": 1, "bbox": [1, 1, 9, 9]} for n in range(10)]
    path.write_text(
        json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "person"}]})
    )
    return path


def names(path: Path, count: int) -> list[str]:
    return [image.file_name for image in choose_pictures(path, count).images]


def test_pictures_are_spread_over_the_set(folder: Path, annotations: Path) -> None:
    assert names(folder, 3) == names(annotations, 3) == ["0.png", "3.png", "6.png"]
    assert names(folder, 10) == [f"{number}.png" for number in range(10)]


def test_too_few_or_none(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds 10 pictures, fewer than the 11.*--images"):
        choose_pictures(folder, 11)
    with pytest.raises(ConfigError, match="neither a folder of pictures nor a COCO file"):
        choose_pictures(tmp_path / "nowhere", 1)


def test_a_listed_picture_that_is_absent(folder: Path, annotations: Path) -> None:
    (folder / "0.png").unlink()
    with pytest.raises(ConfigError, match=r"0\.png: cannot be read"):
        choose_pictures(annotations, 1)


def test_what_is_no_file_is_not_waited_for(folder: Path, annotations: Path) -> None:
    os.mkfifo(folder / "00.png")
    (folder / "01.png").mkdir()
    assert names(folder, 10) == [f"{number}.png" for number in range(10)]
    (folder / "0.png").unlink()
    os.mkfifo(folder / "0.png")
    with pytest.raises(ConfigError, match=r"0\.png: is not a picture's file"):
        choose_pictures(annotations, 1)
    assert len(held_out(read_coco(annotations), folder, choose_pictures(folder, 1)).images) == 9


def test_the_digest_is_that_of_the_list_of_sha256sum(folder: Path) -> None:
    chosen = choose_pictures(folder, 4)
    listed = [image.file_name for image in chosen.images]
    printed = subprocess.run(["sha256sum", *listed], cwd=folder, check=True, capture_output=True).stdout
    assert chosen.digest() == hashlib.sha256(printed).hexdigest()
    assert choose_pictures(folder, 5).digest() != chosen.digest()


def test_pictures_lie_in_images_or_beside(annotations: Path, tmp_path: Path) -> None:
    assert pictures_of(annotations) == annotations.parent / "images"
    assert pictures_of(tmp_path / "truth.json") == tmp_path


def test_feeds_are_prepared_as_on_the_device(folder: Path) -> None:
    chosen = choose_pictures(folder, 10)
    feeds = list(chosen.feeds(SPEC, ()))
    assert len(feeds) == 10
    preprocessor = Preprocessor(SPEC)
    for image, feed in zip(chosen.images, feeds, strict=True):
        tensor = preprocessor.allocate(1)
        preprocessor.fill(read_image(folder, image), tensor, 0, None)
        assert np.array_equal(feed["images"], tensor)
    assert [float(feed["images"][0, 0, 32, 48]) for feed in chosen.feeds(SPEC, (), 2)] == pytest.approx(
        [0, 100 / 255]
    )


def test_a_damaged_picture(folder: Path) -> None:
    (folder / "0.png").write_bytes(b"\x89PNG")
    with pytest.raises(ImageError, match=r"0\.png: not an image"):
        next(choose_pictures(folder, 1).feeds(SPEC, ()))


def left(truth: CocoSet, folder: Path, calibration: Path, count: int) -> list[str]:
    return [image.file_name for image in held_out(truth, folder, choose_pictures(calibration, count)).images]


def test_what_calibrates_is_not_measured_on_whatever_its_name(
    folder: Path, annotations: Path, tmp_path: Path
) -> None:
    truth = read_coco(annotations)
    assert left(truth, folder, folder, 5) == [f"{number}.png" for number in (1, 3, 5, 7, 9)]
    (tmp_path / "copies").mkdir()
    shutil.copy(folder / "4.png", tmp_path / "copies" / "other.png")
    rest = held_out(truth, folder, choose_pictures(tmp_path / "copies", 1))
    assert len(rest.images) == 9
    assert {box.image_id for box in rest.annotations} == {0, 1, 2, 3, 5, 6, 7, 8, 9}
    with pytest.raises(ConfigError, match="every annotated picture"):
        left(truth, folder, folder, 10)


def test_an_absent_picture_is_left_to_the_evaluation(folder: Path, annotations: Path) -> None:
    truth, chosen = read_coco(annotations), choose_pictures(folder, 1)
    (folder / "9.png").unlink()
    assert len(held_out(truth, folder, chosen).images) == 9
