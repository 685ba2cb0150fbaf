"""Graphs in 16 bits: what stays wide, what is really computed, and what rounding does."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.authoring.half import halve
from edge_runtime.authoring.half_rounding import rounded
from edge_runtime.errors import PackageError
from edge_runtime.perception.backends import Tensor, load_backend

Run = Callable[[onnx.ModelProto, Tensor], Tensor]


def graph(nodes: Sequence[onnx.NodeProto], constants: dict[str, Tensor], shape: list[int]) -> onnx.ModelProto:
    built = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def tall() -> onnx.ModelProto:
    """x → x·1000 → twice the rectifier → /1000 → +1: above 65 the middle is too large for 16 bits."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"], name="grow"),
        helper.make_node("Relu", ["a"], ["b"], name="first"),
        helper.make_node("Relu", ["b"], ["c"], name="second"),
        helper.make_node("Div", ["c", "k"], ["d"], name="shrink"),
        helper.make_node("Add", ["d", "one"], ["y"], name="last"),
    ]
    constants = {"k": np.array([1000], np.float32), "one": np.array([1], np.float32)}
    return graph(nodes, constants, [1, 4])


def feed(value: float) -> dict[str, Tensor]:
    return {"x": np.full((1, 4), value, np.float32)}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def once(model: onnx.ModelProto, x: Tensor) -> Tensor:
        path = tmp_path / "run.onnx"
        onnx.save(model, str(path))
        backend = load_backend(path)
        try:
            return backend.infer({"x": x})[0]
        finally:
            backend.close()

    return once


def types(model: onnx.ModelProto) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    values = (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input)
    return {value.name: value.type.tensor_type.elem_type for value in values}


def test_small_values_are_halved_throughout(run: Run) -> None:
    halved = halve(tall().SerializeToString(), [feed(1), feed(20)])
    assert halved.overflowing == {}
    assert halved.wide == frozenset()
    known = types(halved.model)
    assert {known[name] for name in "abcd"} == {TensorProto.FLOAT16}
    assert known["x"] == known["y"] == TensorProto.FLOAT
    assert run(halved.model, feed(3)["x"]).dtype == np.float32


def test_what_overflows_stays_wide_and_is_never_cast(run: Run) -> None:
    halved = halve(tall().SerializeToString(), [feed(1), feed(100)])
    assert halved.wide == {"grow", "first", "second", "shrink"}
    assert halved.overflowing == dict.fromkeys(halved.wide, 100_000.0)
    onnx.checker.check_model(halved.model, full_check=True)
    casts = {node.input[0] for node in halved.model.graph.node if node.op_type == "Cast"}
    wide = {name for node in halved.model.graph.node if node.name in halved.wide for name in node.output}
    assert casts & wide == {node.output[0] for node in halved.model.graph.node if node.name == "shrink"}
    assert run(halved.model, feed(100)["x"]) == pytest.approx(101)


def test_the_margin_is_half_of_the_largest() -> None:
    below = halve(tall().SerializeToString(), [feed(32)])
    above = halve(tall().SerializeToString(), [feed(33)])
    assert (below.overflowing, set(above.overflowing.values())) == ({}, {33_000.0})


def test_a_value_that_is_not_finite_stays_wide() -> None:
    assert halve(tall().SerializeToString(), [feed(np.inf)]).wide >= {"grow", "shrink"}


def test_a_large_constant_stays_wide(run: Run) -> None:
    nodes = [
        helper.make_node("Div", ["x", "huge"], ["a"], name="divide"),
        helper.make_node("Sigmoid", ["a"], ["y"], name="squash"),
    ]
    model = graph(nodes, {"huge": np.array(1e6, np.float32)}, [1, 4])
    halved = halve(model.SerializeToString(), [feed(1)])
    assert halved.overflowing == {"divide": 1e6}
    assert run(halved.model, feed(2e6)["x"]) == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-3)


def test_named_nodes_stay_wide() -> None:
    assert halve(tall().SerializeToString(), [feed(1)], ["last"]).wide == {"last"}


def test_rounding_shows_what_this_machine_hides(run: Run) -> None:
    """The converted graph is computed in 32 bits here; rounded, it is what a GPU would give."""
    halved = halve(tall().SerializeToString(), [feed(1)])  # pictures that show nothing large
    assert np.isfinite(run(halved.model, feed(100)["x"])).all()
    assert np.isinf(run(rounded(halved.parent, halved.wide), feed(100)["x"])).all()
    measured = halve(tall().SerializeToString(), [feed(100)])
    assert run(rounded(measured.parent, measured.wide), feed(100)["x"]) == pytest.approx(101)


def test_rounding_rounds_every_value(run: Run) -> None:
    halved = halve(tall().SerializeToString(), [feed(1)])
    x = np.array([[1.0001, 0.12345, 7.7777, 0]], np.float32)
    steps = np.float16(x) * np.float16(1000)
    steps = np.float16(np.maximum(steps, 0)) / np.float16(1000) + np.float16(1)
    assert steps.dtype == np.float16
    assert np.array_equal(run(rounded(halved.parent, halved.wide), x), steps.astype(np.float32))
    assert not np.array_equal(run(halved.parent, x), steps.astype(np.float32))


def test_resize_and_selection_run(run: Run) -> None:
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["a"], name="grow", mode="nearest"),
        helper.make_node("Flatten", ["a"], ["b"], name="flat"),
        helper.make_node("TopK", ["b", "count"], ["y", "places"], name="best"),
    ]
    constants: dict[str, Tensor] = {
        "scales": np.array([1, 1, 2, 2], np.float32),
        "count": np.array([3], np.int64),
    }
    model = graph(nodes, constants, [1, 1, 2, 2])
    x = np.array([[[[1, 4], [2, 3]]]], np.float32)
    halved = halve(model.SerializeToString(), [{"x": x}])
    assert halved.wide == {"best"}
    for made in (halved.model, rounded(halved.parent, halved.wide)):
        assert run(made, x).tolist() == [[4, 4, 4]]


def test_a_graph_inside_a_node_is_refused() -> None:
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "branch", [], [value])
    yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
    choose = helper.make_node("If", ["yes"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    with pytest.raises(PackageError, match=r"holds a If \(choice\) with a graph inside"):
        halve(graph([yes, choose], {}, [1, 4]).SerializeToString(), [feed(1)])
