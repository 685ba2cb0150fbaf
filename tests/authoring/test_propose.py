"""Real files become packages that say what was sure and what was guessed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_runtime.authoring.batching import provable_batch
from edge_runtime.authoring.findings import Confidence
from edge_runtime.authoring.propose import Proposal, Wishes, propose
from edge_runtime.errors import PackageError
from edge_runtime.packages.recipe import FileSource, Recipe
from edge_runtime.qualification.sizes import loaded
from tests.rigs.onnx_files import anonymous, changed_file, declare, metadata

FAST = "fastestdet_coco_352"

EXPECTED = {
    FAST: ("fastestdet", "bgr", "stretch", (352, 352), 80, 1),
    "nanodet_m_coco_416": ("nanodet", "bgr", "stretch", (416, 416), 80, 1),
    "ultraface_rfb_320x240": ("ultraface", "rgb", "stretch", (240, 320), 1, 1),
    "yolox_nano_coco_416": ("yolox", "bgr", "letterbox", (416, 416), 80, 1),
    "yunet_face_2026may": ("yunet", "bgr", "letterbox", (640, 640), 1, 1),
    "ssdlite_pedestrian_300_uint8_nhwc": ("ssd", "rgb", "stretch", (300, 300), 1, 8),
}

LARGE = {
    "yolov5n_coco_fp16_640": ("yolov5", "rgb", "letterbox", (640, 640), 80, 1),
    "yolov8n_coco_int8_640": ("yolov8", "rgb", "letterbox", (640, 640), 80, 1),
    "yolo26n_coco_int8_640_end2end": ("yolo_end2end", "rgb", "letterbox", (640, 640), 80, 1),
    "yolov10n_coco_int8_declares320_runs640": ("yolo_end2end", "rgb", "letterbox", (640, 640), 80, 1),
    "deimv2_atto_coco_int8_320_damaged": ("detr", "rgb", "stretch", (320, 320), 80, 1),
}


def summary(proposal: Proposal) -> tuple[str, str, str, tuple[int, int], int, int]:
    spec = proposal.manifest.input
    return (
        proposal.manifest.head.family,
        spec.color,
        spec.resize,
        (spec.height, spec.width),
        len(proposal.manifest.labels),
        spec.batch,
    )


def confidence(proposal: Proposal, field: str) -> Confidence:
    return next(found.confidence for found in proposal.findings if found.field == field)


@pytest.mark.parametrize("stem", EXPECTED)
def test_real_files(onnx_models: Path, stem: str) -> None:
    proposal = propose(onnx_models / f"{stem}.onnx")
    assert summary(proposal) == EXPECTED[stem]
    assert len(proposal.manifest.golden) == len(proposal.vectors) > 0
    assert any(len(recorded.detections) for recorded in proposal.vectors)
    assert not [found for found in proposal.findings if found.confidence is Confidence.DEFECT]
    assert confidence(proposal, "thresholds") is Confidence.GUESS


@pytest.mark.trial
@pytest.mark.parametrize("stem", LARGE)
def test_larger_real_files(onnx_models: Path, stem: str) -> None:
    proposal = propose(onnx_models / f"{stem}.onnx")
    assert summary(proposal) == LARGE[stem]
    defects = [found.value for found in proposal.findings if found.confidence is Confidence.DEFECT]
    assert defects == (["does not see"] if "damaged" in stem else [])


@pytest.mark.parametrize("stem", [FAST, "yolox_nano_coco_416", "ultraface_rfb_320x240"])
def test_names_and_metadata_are_not_needed(onnx_models: Path, tmp_path: Path, stem: str) -> None:
    path = changed_file(onnx_models / f"{stem}.onnx", tmp_path / "model.onnx", anonymous)
    assert summary(propose(path)) == EXPECTED[stem]


def test_colour_order_is_confirmed_by_what_the_model_sees(onnx_models: Path) -> None:
    # Bug kind 6: on these two, the drawn scenes score clearly less with red and blue exchanged.
    for stem in ("yolox_nano_coco_416", FAST):
        proposal = propose(onnx_models / f"{stem}.onnx")
        assert confidence(proposal, "input.preprocessing") is Confidence.SURE


def with_swapped_kernels(model: onnx.ModelProto) -> None:
    """The same detector, trained on RGB instead of BGR."""
    first = next(node for node in model.graph.node if node.op_type == "Conv")
    tensor = next(held for held in model.graph.initializer if held.name == first.input[1])
    array = numpy_helper.to_array(tensor)
    assert array.shape[1] == 3
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array[:, ::-1]), tensor.name))


def scaled_kernels(factor: float) -> Callable[[onnx.ModelProto], None]:
    def apply(model: onnx.ModelProto) -> None:
        first = next(node for node in model.graph.node if node.op_type == "Conv")
        tensor = next(held for held in model.graph.initializer if held.name == first.input[1])
        array = numpy_helper.to_array(tensor) * np.float32(factor)
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))

    return apply


def test_a_model_that_takes_pixels_in_another_range_is_found_out(onnx_models: Path, tmp_path: Path) -> None:
    # FastestDet usually takes 0..1; this one has the division by 255 inside its first kernel.
    source = onnx_models / f"{FAST}.onnx"
    path = changed_file(source, tmp_path / "scaled.onnx", scaled_kernels(1 / 255))
    proposal = propose(path)
    assert proposal.manifest.input.scale == 1.0
    assert confidence(proposal, "input.preprocessing") is Confidence.SURE


def test_a_colour_order_that_the_scenes_contradict_is_not_called_sure(
    onnx_models: Path, tmp_path: Path
) -> None:
    path = changed_file(onnx_models / f"{FAST}.onnx", tmp_path / "rgb.onnx", with_swapped_kernels)
    assert confidence(propose(path), "input.preprocessing") is Confidence.GUESS


def test_a_batch_is_only_promised_when_it_was_proved(onnx_models: Path, tmp_path: Path) -> None:
    # This YOLOX accepts two pictures but puts the second one's candidates behind the first one's.
    path = changed_file(
        onnx_models / "yolox_nano_coco_416.onnx", tmp_path / "b.onnx", declare(("batch", None, None, None))
    )
    proposal = propose(path)
    assert proposal.manifest.input.batch == 1
    assert "other results" in next(f.why for f in proposal.findings if f.field == "input.batch")
    with loaded(onnx_models / "ssdlite_pedestrian_300_uint8_nhwc.onnx") as backend:
        spec = propose(onnx_models / "ssdlite_pedestrian_300_uint8_nhwc.onnx").manifest.input
        assert provable_batch(spec, backend, open_batch=True)[0] == 8


def test_a_damaged_file_becomes_a_package_with_a_loud_defect(onnx_models: Path, tmp_path: Path) -> None:
    def spoil(model: onnx.ModelProto) -> None:
        tensor = next(held for held in model.graph.initializer if len(held.dims) == 4)
        array = numpy_helper.to_array(tensor).copy()
        array.flat[0] = np.nan
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    proposal = propose(changed_file(onnx_models / f"{FAST}.onnx", tmp_path / "nan.onnx", spoil))
    assert {found.why for found in proposal.findings if found.confidence is Confidence.DEFECT} >= {
        "these weights hold NaN"
    }


def test_shifted_names_are_a_defect(onnx_models: Path, tmp_path: Path) -> None:
    from edge_runtime.authoring.label_sets import COCO

    shifted = str(dict(enumerate([*COCO[1:], COCO[0]])))
    path = changed_file(onnx_models / f"{FAST}.onnx", tmp_path / "s.onnx", metadata(names=shifted))
    defects = [f for f in propose(path).findings if f.confidence is Confidence.DEFECT]
    assert [found.value for found in defects] == ["shifted by 1"]


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"task": "segment"}, "its task is segment"),
        ({"names": "{0: 'cat', 1: 'dog'}"}, "names 2 classes, but the head has 80"),
    ],
)
def test_files_that_contradict_themselves_are_refused(
    onnx_models: Path, tmp_path: Path, entries: dict[str, str], sentence: str
) -> None:
    path = changed_file(onnx_models / f"{FAST}.onnx", tmp_path / "m.onnx", metadata(**entries))
    with pytest.raises(PackageError, match=sentence):
        propose(path)


def test_an_old_operator_set_is_refused(onnx_models: Path, tmp_path: Path) -> None:
    def old(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 6

    path = changed_file(onnx_models / f"{FAST}.onnx", tmp_path / "old.onnx", old)
    with pytest.raises(PackageError, match="operator set 6"):
        propose(path)


def test_a_label_file_of_another_length_than_the_graph_computes_with_is_refused(onnx_models: Path) -> None:
    path = onnx_models / "ssdlite_pedestrian_300_uint8_nhwc.onnx"
    with pytest.raises(PackageError, match="names 2 classes, but the head has 1"):
        propose(path, Wishes(labels=("person", "bicycle")))


def test_wishes_go_into_the_manifest(onnx_models: Path) -> None:
    recipe = Recipe(
        source=FileSource(kind="file", path="a/yunet.onnx"), original_sha256="0" * 64, original_bytes=1
    )
    wishes = Wishes(
        labels=("visage",),
        licence="MIT",
        evidence="the repository",
        name="Small Faces",
        released="2025-05-01",
        recipe=recipe,
        size=(256, 320),
        family="yunet",
    )
    proposal = propose(onnx_models / "yunet_face_2026may.onnx", wishes)
    manifest = proposal.manifest
    assert manifest.name == "small-faces"
    assert manifest.labels == ("visage",)
    assert (manifest.licence.spdx, manifest.licence.evidence) == ("MIT", "the repository")
    assert manifest.released == "2025-05-01"
    assert manifest.weights.source == "a/yunet.onnx below ."
    assert (manifest.input.height, manifest.input.width) == (256, 320)
    assert proposal.recipe == recipe
    assert confidence(proposal, "input.preprocessing") is Confidence.GUESS  # the scenes show no "visage"


def test_without_repair_nothing_is_measured(onnx_models: Path, tmp_path: Path) -> None:
    path = changed_file(onnx_models / f"{FAST}.onnx", tmp_path / "w.onnx", declare((None, None, 416, 416)))
    proposal = propose(path, Wishes(repair=False))
    assert proposal.manifest.golden == ()
    assert proposal.manifest.input.height == 416
    assert Confidence.DEFECT in {found.confidence for found in proposal.guesses}
