"""A check calls healthy packages fit and names what is wrong with the others."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime.packages import open_package
from edge_runtime.qualification import CheckReport, check_package

from .conftest import each_kernel

MakeChanged = Callable[..., Path]

FAST = "fastestdet_coco_352"
FACES = "ultraface_rfb_320x240"
FINISHED = "ssdlite_pedestrian_300_uint8_nhwc"


def check(directory: Path) -> CheckReport:
    return check_package(open_package(directory))


def errors(report: CheckReport) -> list[str]:
    return [problem.code for problem in report.problems if problem.severity == "error"]


@pytest.mark.parametrize("stem", [FAST, FACES, FINISHED, "yolox_nano_coco_416", "yunet_face_2026may"])
def test_healthy_packages_are_fit(package_of: Callable[[str], Path], stem: str) -> None:
    report = check(package_of(stem))
    assert report.fit
    assert [problem.code for problem in report.problems] == ["licence"]
    assert report.digest.startswith("sha256:")


def test_nan_weights_are_named(changed: MakeChanged) -> None:
    def spoil(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        array.flat[0] = np.nan
        return array

    report = check(changed(FAST, weights=each_kernel(spoil)))
    assert errors(report) == ["nonfinite-output"]
    assert "NaN" in report.problems[0].text


def test_weights_that_ignore_the_picture_are_named(changed: MakeChanged) -> None:
    report = check(changed(FAST, weights=each_kernel(np.zeros_like)))
    assert errors(report) == ["constant-output"]


def test_finding_nothing_anywhere_is_only_a_warning_where_the_graph_drops_low_scores(
    changed: MakeChanged,
) -> None:
    def silence(model: onnx.ModelProto) -> None:
        for place, name in enumerate([output.name for output in model.graph.output]):
            model.graph.output[place].name = f"zero{place}"
            # x - x: zero, and of the shape that it had
            model.graph.node.append(helper.make_node("Sub", [name, name], [f"zero{place}"]))

    def renamed(data: dict[str, Any]) -> None:
        data["head"]["outputs"] = [f"zero{place}" for place in range(4)]
        data["golden"] = []

    report = check(changed(FINISHED, manifest=renamed, weights=silence))
    assert {problem.code: problem.severity for problem in report.problems} == {
        "licence": "warning",
        "no-golden": "warning",
        "constant-output": "warning",
        "does-not-see": "warning",
    }


def test_weights_ruined_by_rounding_do_not_see(changed: MakeChanged) -> None:
    def coarse(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        step = np.abs(array).max() / 2 or 1.0
        return (np.round(array / step) * step).astype(array.dtype)

    report = check(changed(FAST, weights=each_kernel(coarse)))
    assert "does-not-see" in errors(report)
    assert "golden-differs" in errors(report)


def test_slightly_different_weights_miss_the_golden_vectors(changed: MakeChanged) -> None:
    report = check(changed(FAST, weights=each_kernel(lambda array: array * np.float32(1.02))))
    assert "golden-differs" in errors(report)
    assert "does-not-see" not in errors(report)


def labels(change: Callable[[list[str]], list[str]]) -> Callable[[dict[str, Any]], None]:
    def edit(data: dict[str, Any]) -> None:
        data["labels"] = change(data["labels"])

    return edit


@pytest.mark.parametrize("change", [lambda names: names[:-1], lambda names: [*names, "ghost"]])
def test_a_label_map_of_another_length_is_named(
    changed: MakeChanged, change: Callable[[list[str]], list[str]]
) -> None:
    report = check(changed(FAST, manifest=labels(change)))
    assert errors(report) == ["label-count"]


def test_a_label_map_shifted_by_one_is_named(changed: MakeChanged) -> None:
    report = check(changed(FAST, manifest=labels(lambda names: [*names[1:], names[0]])))
    assert "label-shift" in errors(report)
    assert "shifted by 1" in report.problems[0].text


def test_labels_of_finished_heads_must_reach_the_ids_that_the_model_gives(changed: MakeChanged) -> None:
    def shift(data: dict[str, Any]) -> None:
        data["head"]["first_class_id"] = 2

    report = check(changed(FINISHED, manifest=shift))
    assert errors(report) == ["label-count"]


def test_exchanged_colours_are_named(changed: MakeChanged) -> None:
    def swap(data: dict[str, Any]) -> None:
        data["input"]["color"] = "rgb"

    report = check(changed(FAST, manifest=swap))
    assert "color-order" in errors(report)


@pytest.mark.parametrize(
    "change",
    [{"scale": 1.0}, {"resize": "letterbox"}, {"mean": [0.5, 0.5, 0.5]}],
    ids=lambda change: next(iter(change)),
)
def test_pictures_prepared_otherwise_are_named(changed: MakeChanged, change: dict[str, Any]) -> None:
    report = check(changed(FAST, manifest=lambda data: data["input"].update(change)))
    assert "preprocessing-differs" in errors(report)


def test_a_declared_size_that_the_graph_cannot_run_is_named_with_one_that_runs(changed: MakeChanged) -> None:
    def lie(model: onnx.ModelProto) -> None:
        for place in (2, 3):
            model.graph.input[0].type.tensor_type.shape.dim[place].dim_value = 416

    def lie_too(data: dict[str, Any]) -> None:
        data["input"].update(height=416, width=416)
        data["golden"] = []

    report = check(changed(FAST, manifest=lie_too, weights=lie))
    assert errors(report) == ["declared-size-not-runnable"]
    assert "416x416" in report.problems[0].text
    assert "runs at 352x352" in report.problems[0].text


def test_a_manifest_that_declares_another_size_than_the_graph_is_named(changed: MakeChanged) -> None:
    def lie(data: dict[str, Any]) -> None:
        data["input"].update(height=320, width=320)

    report = check(changed(FAST, manifest=lie))
    assert errors(report) == ["declared-size-not-runnable"]
    assert "352x352" in report.problems[0].text


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"dtype": "float16"}, "manifest-and-graph-differ"),
        ({"name": "other"}, "manifest-and-graph-differ"),
        ({"layout": "nhwc"}, "manifest-and-graph-differ"),
        ({"std": [0.0, 1.0, 1.0]}, "manifest-contradicts-itself"),
    ],
)
def test_an_input_section_that_does_not_fit_is_named(
    changed: MakeChanged, change: dict[str, Any], code: str
) -> None:
    report = check(changed(FAST, manifest=lambda data: data["input"].update(change)))
    assert errors(report) == [code]


def test_an_output_that_is_not_there_is_named(changed: MakeChanged) -> None:
    report = check(changed(FAST, manifest=lambda data: data["head"].update(outputs=["gone"])))
    assert errors(report) == ["missing-output"]
    assert "gone" in report.problems[0].text


def test_a_head_of_another_family_is_named(changed: MakeChanged) -> None:
    report = check(changed(FAST, manifest=lambda data: data["head"].update(family="yolov8")))
    assert len(errors(report)) == 1
    assert errors(report)[0] in ("head-differs", "label-count")


def test_weights_that_do_not_load_are_named(changed: MakeChanged) -> None:
    def break_node(model: onnx.ModelProto) -> None:
        model.graph.node[3].op_type = "NoSuchOperator"

    report = check(changed(FAST, weights=break_node))
    assert errors(report) == ["does-not-load"]
    assert "\n" not in report.problems[0].text


def test_a_measured_accuracy_below_the_floor_is_unfit(changed: MakeChanged) -> None:
    def poor(data: dict[str, Any]) -> None:
        entry = {"dataset": "coco_val128", "images": 128, "metric": "map", "value": 0.042}
        data["evaluation"] = [entry]

    report = check(changed(FAST, manifest=poor))
    assert errors(report) == ["below-accuracy-floor"]


@pytest.mark.parametrize(
    ("change", "code", "fit"),
    [
        ({"accuracy_floor": None}, "no-accuracy-floor", False),
        ({}, "not-measured", True),
        (
            {"evaluation": [{"dataset": "coco_val128", "images": 128, "metric": "map", "value": 0.2}]},
            None,
            True,
        ),
    ],
)
def test_quantised_weights_without_a_parent_have_a_floor_to_meet(
    changed: MakeChanged, change: dict[str, Any], code: str | None, fit: bool
) -> None:
    report = check(changed(FAST, manifest=lambda data: data.update({"quantisation": "int8-qdq", **change})))
    assert report.fit is fit
    found = {problem.code for problem in report.problems}
    assert found & {"no-accuracy-floor", "not-measured"} == ({code} if code else set())


def test_warnings_do_not_make_a_package_unfit(changed: MakeChanged) -> None:
    def edit(data: dict[str, Any]) -> None:
        data["golden"] = []
        data["weights"]["repairs"] = ["declared shapes rewritten"]
        data["labels"][3] = data["labels"][4]

    report = check(changed(FAST, manifest=edit))
    assert report.fit
    assert [problem.code for problem in report.problems] == [
        "licence",
        "repaired",
        "no-golden",
        "duplicate-label",
    ]


def test_golden_vectors_of_another_model_are_named(changed: MakeChanged) -> None:
    def renamed(model: onnx.ModelProto) -> None:
        old = model.graph.output[0].name
        model.graph.output[0].name = "y"
        model.graph.node.append(helper.make_node("Identity", [old], ["y"]))

    report = check(changed(FAST, manifest=lambda data: data["head"].update(outputs=["y"]), weights=renamed))
    assert set(errors(report)) == {"missing-output"}


def test_a_tolerance_that_is_not_stated_is_a_warning(changed: MakeChanged) -> None:
    def edit(data: dict[str, Any]) -> None:
        for vector in data["golden"]:
            vector["atol"] = {"fp16": 1.0}

    report = check(changed(FAST, manifest=edit))
    assert report.fit
    assert [problem.code for problem in report.problems] == ["licence", "no-tolerance", "no-tolerance"]


def test_a_graph_that_fails_only_when_it_runs_is_named(changed: MakeChanged) -> None:
    def fail(model: onnx.ModelProto) -> None:
        # 7 values reshaped into 5: onnxruntime notices at run time, because the shape is computed
        name = model.graph.output[0].name
        model.graph.initializer.append(helper.make_tensor("half", TensorProto.INT64, [2], [5, 7]))
        model.graph.node.append(helper.make_node("Identity", ["half"], ["shape"]))
        model.graph.node.append(helper.make_node("Reshape", [name, "shape"], ["y"]))
        model.graph.output[0].name = "y"
        model.graph.output[0].type.tensor_type.shape.ClearField("dim")

    report = check(changed(FAST, manifest=lambda data: data["head"].update(outputs=["y"]), weights=fail))
    assert errors(report)[0] in ("does-not-load", "does-not-run")


def after(output: int, operator: str, factor: float) -> tuple[Any, Any]:
    """A change of one output by a constant, and the manifest's new name for it."""

    def graph(model: onnx.ModelProto) -> None:
        name = model.graph.output[output].name
        model.graph.initializer.append(helper.make_tensor("factor", TensorProto.FLOAT, [], [factor]))
        model.graph.node.append(helper.make_node(operator, [name, "factor"], ["changed"]))
        model.graph.output[output].name = "changed"

    def manifest(data: dict[str, Any]) -> None:
        data["head"]["outputs"][output] = "changed"

    return graph, manifest


def rename_golden(directory: Path, old: str, new: str) -> None:
    """Records the outputs of every golden vector under another name."""
    data = json.loads((directory / "manifest.json").read_text())
    for vector in data["golden"]:
        path = directory / vector["outputs"]
        with np.load(path) as arrays:
            kept = {name.replace(old, new): arrays[name] for name in arrays.files}
        np.savez(path, **kept)
        vector["outputs_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (directory / "manifest.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("output", "operator", "factor", "code"),
    [(0, "Mul", 0.8, "golden-detections-differ"), (1, "Mul", 0.1, "empty-output")],
    ids=["boxes", "scores"],
)
def test_finished_boxes_are_compared_as_detections(
    changed: MakeChanged, output: int, operator: str, factor: float, code: str
) -> None:
    graph, manifest = after(output, operator, factor)
    directory = changed(FINISHED, manifest=manifest, weights=graph)
    old = "detection_boxes:0" if output == 0 else "detection_scores:0"
    rename_golden(directory, old, "changed")
    report = check(directory)
    assert code in errors(report)


def test_an_output_of_another_shape_than_recorded_is_named(changed: MakeChanged) -> None:
    directory = changed(FAST)
    data = json.loads((directory / "manifest.json").read_text())
    for vector in data["golden"]:
        path = directory / vector["outputs"]
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in arrays.files}
        kept["758@shape"] = np.array([1, 85, 44, 11])
        np.savez(path, **kept)
        vector["outputs_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (directory / "manifest.json").write_text(json.dumps(data))
    report = check(directory)
    assert errors(report) == ["golden-differs", "golden-differs"]
    assert "1x85x22x22 instead of 1x85x44x11" in report.problems[0].text


def test_a_golden_vector_that_is_none_is_named(changed: MakeChanged) -> None:
    directory = changed(FAST)
    data = json.loads((directory / "manifest.json").read_text())
    vector = data["golden"][0]
    (directory / vector["outputs"]).write_bytes(b"rubbish")
    vector["outputs_sha256"] = hashlib.sha256(b"rubbish").hexdigest()
    (directory / "manifest.json").write_text(json.dumps(data))
    assert errors(check(directory)) == ["golden-unusable"]


def test_a_golden_vector_may_start_at_a_tensor(changed: MakeChanged) -> None:
    directory = changed(FAST)
    data = json.loads((directory / "manifest.json").read_text())
    for vector in data["golden"]:
        path = directory / vector["inputs"]
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in arrays.files if name != "@picture"}
        np.savez(path, **kept)
        vector["inputs_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (directory / "manifest.json").write_text(json.dumps(data))
    assert check(directory).fit
