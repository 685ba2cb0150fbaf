"""Whole images through preprocessing, a real model, decoding and suppression."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_runtime.authoring.coco import CocoSet, read_coco
from edge_runtime.errors import DecodeError, ImageError, PackageError
from edge_runtime.packages.manifest import HeadSpec, InputSpec, ModelManifest, Thresholds
from edge_runtime.perception.backends import Backend, load_backend
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.detector import Detector, Postprocessor
from edge_runtime.perception.letterbox import fit
from edge_runtime.sources.frame import Image
from tests.rigs.detectors import REAL_MODELS, RealModel
from tests.rigs.graphs import constant_graph

E2E = HeadSpec(family="yolo_end2end", outputs=("output0",), nms="inside")


@dataclass(frozen=True)
class Described:
    manifest: ModelManifest


@cache  # loading some of them takes seconds
def real_backend(weights: Path) -> Backend:
    return load_backend(weights, threads=2)


def real_detector(models: Path, name: str, **options: Any) -> Detector:
    model = REAL_MODELS[name]
    return Detector(Described(model.manifest(models)), real_backend(models / model.file), **options)


@pytest.fixture(scope="session")
def coco(truth: Path) -> CocoSet:
    return read_coco(truth / "coco_val128" / "instances.json")


def photo(truth: Path, number: int) -> Image:
    image = cv2.imread(str(truth / "coco_val128" / "images" / f"{number:012d}.jpg"))
    assert image is not None
    return image  # type: ignore[return-value]


def overlap(box: Sequence[float], others: Tensor) -> float:
    """Largest IoU of a box with any of several."""
    if not len(others):
        return 0.0
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.clip(high - low, 0, None).prod(1)
    area = (box[2] - box[0]) * (box[3] - box[1])
    return float((shared / (area + (others[:, 2:] - others[:, :2]).prod(1) - shared)).max())


@pytest.mark.parametrize("name", [name for name, model in REAL_MODELS.items() if "face" not in model.file])
def test_people_are_where_they_are(onnx_models: Path, truth: Path, coco: CocoSet, name: str) -> None:
    detector = real_detector(onnx_models, name, score=0.15 if name == "deimv2" else 0.3)
    for number in (785, 4765):
        found = detector.detect(photo(truth, number))
        person = max(
            (box.bbox for box in coco.annotations if box.image_id == number and box.category_id == 0),
            key=lambda bbox: bbox[2] * bbox[3],
        )
        corners = (person[0], person[1], person[0] + person[2], person[1] + person[3])
        assert overlap(corners, found.xyxy[found.label == 0]) > 0.6
        assert (np.diff(found.score) <= 0).all()


def test_face_heads_agree(onnx_models: Path, truth: Path) -> None:
    for number in (785, 3156, 5060):
        one = real_detector(onnx_models, "yunet").detect(photo(truth, number))
        other = real_detector(onnx_models, "ultraface").detect(photo(truth, number))
        assert len(one) == len(other) == 1
        assert overlap(one.xyxy[0].tolist(), other.xyxy) > 0.7


@pytest.mark.parametrize(("height", "width"), [(320, 320), (416, 672)])
def test_a_dynamic_graph_at_another_size(onnx_models: Path, truth: Path, height: int, width: int) -> None:
    model = REAL_MODELS["yunet"]
    manifest = model.manifest(onnx_models)
    assert manifest.input.dynamic
    other_size = manifest.input.model_copy(update={"height": height, "width": width})
    resized = manifest.model_copy(update={"input": other_size})
    usual = real_detector(onnx_models, "yunet").detect(photo(truth, 1296))
    found = Detector(Described(resized), real_backend(onnx_models / model.file)).detect(photo(truth, 1296))
    assert min(overlap(box, found.xyxy) for box in usual.xyxy.tolist()) > 0.7


def test_one_detector_takes_pictures_of_any_size(onnx_models: Path, truth: Path) -> None:
    detector = real_detector(onnx_models, "yolox_nano")
    image = photo(truth, 785)
    first = detector.detect(image)
    detector.detect(np.ascontiguousarray(np.rot90(image)))
    again = detector.detect(image)
    assert np.array_equal(first.xyxy, again.xyxy)
    with pytest.raises(ImageError, match="gray"):
        detector.detect(image[..., 0])


# ---- small graphs, for what no real model at hand does


def manifest_for(
    path: Path, head: HeadSpec = E2E, labels: tuple[str, ...] = ("a", "b"), **fields: Any
) -> ModelManifest:
    spec = InputSpec(**{"name": "images", "height": 96, "width": 160, **fields})
    model = RealModel(path.name, spec, head, labels, Thresholds(score=0.25, max_detections=3))
    (path.parent / "coco80.txt").write_text("unused")
    return model.manifest(path.parent)


def rows(*values: Sequence[float]) -> Tensor:
    return np.array([values], np.float32)


IMAGE = np.zeros((48, 80, 3), np.uint8)  # twice enlarged, no padding


def detect(
    tmp_path: Path, outputs: dict[str, Tensor], shape: Sequence[int | str], **fields: Any
) -> Detections:
    path = constant_graph(tmp_path / "m.onnx", outputs, shape)
    return Detector(Described(manifest_for(path, **fields)), load_backend(path)).detect(IMAGE)


def test_a_fixed_batch_is_filled_and_its_first_image_read(tmp_path: Path) -> None:
    tensor = np.concatenate([rows([2, 4, 20, 40, 0.9, 1]), *[rows([0, 0, 9, 9, 0.9, 0])] * 3])
    found = detect(tmp_path, {"output0": tensor}, [4, 3, 96, 160])
    assert found.xyxy.tolist() == [[1, 2, 10, 20]]
    assert found.label.tolist() == [1]


def test_other_outputs_and_another_order_do_not_matter(tmp_path: Path) -> None:
    boxes, scores = rows([0.1, 0.1, 0.5, 0.5]), rows([0.2, 0.8])
    outputs = {"features": np.zeros((1, 7), np.float32), "boxes": boxes, "scores": scores}
    head = HeadSpec(family="ultraface", outputs=("scores", "boxes"), first_class_id=1)
    found = detect(tmp_path, outputs, ["batch", 3, 96, 160], head=head, labels=("face",))
    assert found.score.tolist() == [pytest.approx(0.8)]


def test_best_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    tensor = rows(*[[i * 10, 0, i * 10 + 9, 9, 0.3 + i / 10, i % 2] for i in range(6)])
    found = detect(tmp_path, {"output0": tensor}, [1, 3, 96, 160])
    assert found.score.tolist() == pytest.approx([0.8, 0.7, 0.6])


def test_boxes_in_the_padding_are_none_and_others_are_clipped(tmp_path: Path) -> None:
    path = constant_graph(tmp_path / "m.onnx", {"output0": rows([0, 0, 1, 1, 0.9, 0])}, [1, 3, 96, 160])
    manifest = manifest_for(path)
    geometry = fit(manifest.input, 96, 80)  # 40 columns of padding on either side
    tensor = rows([5, 5, 30, 30, 0.9, 0], [20, 10, 60, 30, 0.8, 1], [50, 9, 50, 30, 0.7, 1])
    found = Postprocessor(manifest)([tensor], 0, geometry)
    assert found.xyxy.tolist() == [[0, 10, 20, 30]]
    assert found.label.tolist() == [1]


def test_duplicates_go_only_within_a_class_and_only_outside_the_graph(tmp_path: Path) -> None:
    path = constant_graph(tmp_path / "m.onnx", {"output0": rows([0, 0, 1, 1, 0.9, 0])}, [1, 3, 96, 160])
    tensor = rows([10, 10, 40, 40, 0.9, 0], [11, 10, 41, 40, 0.8, 0], [11, 10, 41, 40, 0.7, 1])
    inside = manifest_for(path)
    outside = manifest_for(path, E2E.model_copy(update={"nms": "outside"}))
    geometry = fit(inside.input, 96, 160)
    assert Postprocessor(inside)([tensor], 0, geometry).score.tolist() == pytest.approx([0.9, 0.8, 0.7])
    assert Postprocessor(outside)([tensor], 0, geometry).score.tolist() == pytest.approx([0.9, 0.7])
    assert len(Postprocessor(outside, nms_iou=0.99)([tensor], 0, geometry)) == 3
    assert len(Postprocessor(inside, score=0.85)([tensor], 0, geometry)) == 1
    assert len(Postprocessor(inside, max_detections=2)([tensor], 0, geometry)) == 2


def test_what_is_not_finite_is_counted_in_the_answer(tmp_path: Path) -> None:
    tensor = rows([np.nan] * 6, [2, 4, 20, 40, 0.9, 1], [1, 1, np.inf, 9, 0.9, 1])
    found = detect(tmp_path, {"output0": tensor}, [1, 3, 96, 160])
    assert len(found) == 1
    assert found.nonfinite == 2


@pytest.mark.parametrize(
    ("shape", "fields", "words"),
    [
        ([1, 3, 96, 160], {"name": "x"}, "feeds 'x', but the graph takes 'images'"),
        ([1, 3, 96, 160], {"dtype": "float16"}, "feeds float16, the graph takes float32"),
        ([1, 3, 64, 160], {}, r"feeds \?x3x96x160 \(nchw\), the graph takes 1x3x64x160"),
        ([1, 3, 96, 160], {"layout": "nhwc"}, r"feeds \?x96x160x3 \(nhwc\)"),
        ([1, 3, 96], {}, "the graph takes 1x3x96"),
        ([1, 3, 96, 160], {"size_input": "sizes"}, "no input 'sizes'"),
        (
            [1, 3, 96, 160],
            {"head": E2E.model_copy(update={"outputs": ("o",)})},
            "no output 'o'; it has 'output0'",
        ),
    ],
)
def test_manifest_and_graph_must_agree(
    tmp_path: Path, shape: list[int | str], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(PackageError, match=words):
        detect(tmp_path, {"output0": rows([0, 0, 1, 1, 0.9, 0])}, shape, **fields)


def test_an_output_that_is_not_what_the_head_has(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="one side must be 6"):
        detect(tmp_path, {"output0": np.zeros((1, 84, 8400), np.float32)}, [1, 3, 96, 160])
