"""Accuracy of real packages on a real set, and what is refused on the way."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_runtime.authoring.coco import CocoImage, CocoSet, read_coco
from edge_runtime.authoring.evaluate import EvaluationReport, evaluate_package, read_image, record, shortfall
from edge_runtime.errors import ConfigError, ImageError, MissingDependency
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.packages.manifest import AccuracyFloor
from edge_runtime.perception.backends import Backend, load_backend
from tests.rigs.detectors import REAL_MODELS


def few(truth: CocoSet, count: int) -> CocoSet:
    """The first images of a set."""
    images = truth.images[:count]
    numbers = {image.id for image in images}
    boxes = tuple(box for box in truth.annotations if box.image_id in numbers)
    return truth.model_copy(update={"images": images, "annotations": boxes})


@pytest.fixture(scope="module")
def coco(truth: Path) -> CocoSet:
    return read_coco(truth / "coco_val128" / "instances.json")


@pytest.fixture(scope="module")
def images(truth: Path) -> Path:
    return truth / "coco_val128" / "images"


@pytest.fixture
def package(onnx_models: Path, tmp_path: Path) -> ModelPackage:
    return open_package(REAL_MODELS["yolox_nano"].write(onnx_models, tmp_path / "package"))


@pytest.fixture(scope="module")
def backend(onnx_models: Path) -> Backend:
    return load_backend(onnx_models / REAL_MODELS["yolox_nano"].file, threads=2)


Run = Callable[..., EvaluationReport]


@pytest.fixture
def run(package: ModelPackage, backend: Backend) -> Run:
    def evaluate(truth: CocoSet, images: Path, **options: Any) -> EvaluationReport:
        return evaluate_package(package, backend, truth, images, **options)

    return evaluate


def test_a_real_model_on_real_images(run: Run, coco: CocoSet, images: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = run(few(coco, 24), images, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 24) for number in range(1, 25)]
    assert report.images == 24
    assert report.unreadable == ()
    assert report.nonfinite == 0
    assert 0.33 <= report.precision.mean <= 0.5
    assert report.value("ap50") > report.value("map") == report.precision.mean
    assert set(report.precision.by_class) == set(report.classes)


def test_chosen_classes(run: Run, coco: CocoSet, images: Path) -> None:
    report = run(few(coco, 12), images, classes=("person",))
    assert report.classes == ("person",)
    assert list(report.precision.by_class) == ["person"]


def copied(coco: CocoSet, images: Path, folder: Path, count: int) -> CocoSet:
    folder.mkdir()
    small = few(coco, count)
    for image in small.images:
        shutil.copy(images / image.file_name, folder)
    return small


def test_absent_and_damaged_images(run: Run, coco: CocoSet, images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    small = copied(coco, images, folder, 4)
    (folder / small.images[0].file_name).unlink()
    with pytest.raises(ConfigError, match=r"lacks 1 of 4 annotated images, the first is 000000000139.jpg"):
        run(small, folder)
    whole = (folder / small.images[1].file_name).read_bytes()
    (folder / small.images[1].file_name).write_bytes(whole[:200])
    report = run(small, folder, skip_unreadable=True)
    assert report.images == 2
    assert report.unreadable == (small.images[0].file_name, small.images[1].file_name)
    shutil.copy(images / small.images[0].file_name, folder)
    with pytest.raises(ImageError, match=f"{small.images[1].file_name}: not an image"):
        run(small, folder)
    for image in small.images:
        (folder / image.file_name).write_bytes(b"")
    with pytest.raises(ConfigError, match="no box of the scored categories"):
        run(small, folder, skip_unreadable=True)


def test_an_image_of_another_size_is_not_the_annotated_one(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((20, 30, 3), np.uint8))
    assert read_image(tmp_path, CocoImage(id=1, file_name="a.png")).shape == (20, 30, 3)
    assert read_image(tmp_path, CocoImage(id=1, file_name="a.png", width=30, height=20)).shape == (20, 30, 3)
    with pytest.raises(ImageError, match="the picture is 30x20, its annotations are for 31x20"):
        read_image(tmp_path, CocoImage(id=1, file_name="a.png", width=31, height=20))
    with pytest.raises(ImageError, match="there is no such file"):
        read_image(tmp_path, CocoImage(id=1, file_name="b.png"))


def test_gray_pictures_become_colour(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.full((20, 30), 77, np.uint8))
    assert read_image(tmp_path, CocoImage(id=1, file_name="a.png")).shape == (20, 30, 3)


def rotated_photo(path: Path) -> None:
    """A JPEG, 30 wide and 20 high as stored, whose EXIF says that it must be turned by a quarter."""
    _, data = cv2.imencode(".jpg", np.zeros((20, 30, 3), np.uint8))
    orientation = b"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
    exif = b"Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01" + orientation + b"\x00\x00\x00\x00"
    marker = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    path.write_bytes(data.tobytes()[:2] + marker + data.tobytes()[2:])


def test_the_annotations_say_which_way_up_a_photo_is(tmp_path: Path) -> None:
    rotated_photo(tmp_path / "a.jpg")
    stored = read_image(tmp_path, CocoImage(id=1, file_name="a.jpg", width=30, height=20))
    upright = read_image(tmp_path, CocoImage(id=1, file_name="a.jpg", width=20, height=30))
    assert stored.shape[:2] == (20, 30)
    assert upright.shape[:2] == (30, 20)
    assert read_image(tmp_path, CocoImage(id=1, file_name="a.jpg")).shape[:2] == (20, 30)


def test_labels_must_match(coco: CocoSet, images: Path, package: ModelPackage, backend: Backend) -> None:
    manifest = package.manifest.model_copy(update={"labels": tuple(f"class {i}" for i in range(80))})
    renamed = ModelPackage(manifest, package.directory, package.weights, package.digest)
    with pytest.raises(ConfigError, match="match none of the annotated categories"):
        evaluate_package(renamed, backend, coco, images)


def test_shortfall(run: Run, coco: CocoSet, images: Path) -> None:
    report = run(few(coco, 4), images)
    assert shortfall(report, None) is None
    assert shortfall(report, AccuracyFloor(metric="map", minimum=report.precision.mean)) is None
    low = shortfall(report, AccuracyFloor(metric="ap50", minimum=0.999))
    assert low == f"ap50 {report.precision.at_50:.4f} is below the floor of 0.999"


def test_record_writes_the_manifest_and_keeps_the_weights(
    run: Run, coco: CocoSet, images: Path, package: ModelPackage
) -> None:
    report = run(few(coco, 4), images)
    record(package, report, "val4")
    again = open_package(package.directory)
    assert again.manifest.version == package.manifest.version
    assert again.digest != package.digest
    assert [(entry.metric, entry.value) for entry in again.manifest.evaluation] == [
        ("map", round(report.precision.mean, 4)),
        ("ap50", round(report.precision.at_50, 4)),
    ]
    record(again, report, "val4")
    record(open_package(package.directory), report, "other")
    third = open_package(package.directory)
    assert [entry.dataset for entry in third.manifest.evaluation] == ["val4", "val4", "other", "other"]
    assert json.loads((package.directory / "manifest.json").read_text())["evaluation"][0]["images"] == 4


def test_record_into_a_folder_that_cannot_be_written(
    run: Run, coco: CocoSet, images: Path, package: ModelPackage
) -> None:
    report = run(few(coco, 2), images)
    gone = ModelPackage(package.manifest, package.directory / "gone", package.weights, package.digest)
    with pytest.raises(ConfigError, match="the manifest cannot be written"):
        record(gone, report, "val2")


def test_without_the_evaluator(
    run: Run, coco: CocoSet, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pycocotools.coco", None)
    with pytest.raises(MissingDependency, match=r"edge-fleet-runtime\[models\]"):
        run(few(coco, 2), images)


FIGURES = {
    "yolox_nano": 0.33,
    "yolov8n": 0.405,
    "yolov5n": 0.33,
    "yolo26n": 0.42,
    "nanodet": 0.24,
    "fastestdet": 0.20,
}


@pytest.mark.trial
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [*FIGURES, "ssdlite", "deimv2"])
def test_figures_on_the_whole_set(
    name: str, coco: CocoSet, images: Path, onnx_models: Path, tmp_path: Path
) -> None:
    package = open_package(REAL_MODELS[name].write(onnx_models, tmp_path / "package"))
    backend = load_backend(package.weights, threads=2)
    classes = ("person",) if name == "ssdlite" else ()
    report = evaluate_package(package, backend, coco, images, classes=classes)
    assert report.images == 128
    if name == "deimv2":
        assert report.precision.mean == pytest.approx(0.042, abs=0.004)  # damaged by its quantisation
    else:
        assert report.precision.mean >= FIGURES.get(name, 0.19)
