"""What quantising does to a graph: which layers, which way round, and only what TensorRT takes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.authoring.quantize_graph import (
    drop_unused,
    head_layers,
    layers,
    left_alone,
    load,
    opset,
    require_symmetric,
)
from edge_runtime.authoring.quantize_int8 import Quantised, quantise
from edge_runtime.authoring.quantize_sensitivity import layer_errors
from edge_runtime.errors import PackageError
from edge_runtime.perception.backends import Tensor, load_backend


def net(version: int = 17, *, outlier: float = 1.0) -> onnx.ModelProto:
    """Four convolutions: a stem, a middle whose input has one large channel, and two heads."""
    random = np.random.default_rng(3)
    widths = {"stem": (8, 3), "middle": (8, 8), "boxes": (4, 8), "scores": (2, 8)}
    weights = {}
    for name, (out, given) in widths.items():
        weights[f"{name}.w"] = random.normal(0, 0.2, (out, given, 3, 3)).astype(np.float32)
        weights[f"{name}.b"] = random.normal(0, 0.1, out).astype(np.float32)
    weights["stem.w"][0] *= outlier
    conv = {
        name: helper.make_node(
            "Conv",
            [source, f"{name}.w", f"{name}.b"],
            [f"{name}.y"],
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
        )
        for name, source in (("stem", "images"), ("middle", "a"), ("boxes", "b"), ("scores", "b"))
    }
    nodes = [
        conv["stem"],
        helper.make_node("Relu", ["stem.y"], ["a"]),
        conv["middle"],
        helper.make_node("Sigmoid", ["middle.y"], ["gate"]),
        helper.make_node("Mul", ["middle.y", "gate"], ["b"]),
        conv["boxes"],
        conv["scores"],
        helper.make_node("Sigmoid", ["scores.y"], ["probabilities"]),
        helper.make_node("Concat", ["boxes.y", "probabilities"], ["output"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 6, 16, 16])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    model.ir_version = 8
    return model


def feeds(count: int = 4) -> list[dict[str, Tensor]]:
    random = np.random.default_rng(5)
    return [{"images": random.random((1, 3, 16, 16), np.float32)} for _ in range(count)]


def result(folder: Path, model: onnx.ModelProto) -> Tensor:
    path = folder / "run.onnx"
    onnx.save(model, str(path))
    backend = load_backend(path)
    try:
        return backend.infer(feeds(1)[0])[0]
    finally:
        backend.close()


def output_of(model: onnx.ModelProto, tensor: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if tensor in node.output)


def layer(name: str) -> str:
    """Nodes of `net` have no names: they are called after what they compute."""
    return f"Conv:{name}.y"


@pytest.fixture(scope="module")
def quantised() -> Quantised:
    return quantise(net().SerializeToString(), feeds(), "minmax")


def test_layers_and_the_heads_among_them() -> None:
    model = load(net().SerializeToString())
    assert layers(model) == tuple(layer(name) for name in ("stem", "middle", "boxes", "scores"))
    assert head_layers(model) == (layer("boxes"), layer("scores"))


def test_an_old_operator_set_is_raised(tmp_path: Path) -> None:
    model = load(net(11).SerializeToString())
    assert opset(model) == 13
    assert np.allclose(result(tmp_path, model), result(tmp_path, net(11)), atol=1e-6)
    assert opset(load(net(17).SerializeToString())) == 17


def test_a_graph_that_cannot_be_raised_is_refused() -> None:
    model = net(11)
    model.graph.node.append(helper.make_node("Unheard", ["output"], ["more"], name="unheard"))
    model.graph.output.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, None))
    with pytest.raises(PackageError, match="cannot be converted from operator set 11 to 13"):
        load(model.SerializeToString())


def test_weights_among_the_inputs_are_none(tmp_path: Path) -> None:
    """Files before format version 4 list them: a conversion would take them for what changes."""
    old = net(11)
    old.ir_version = 3
    for tensor in old.graph.initializer:
        old.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    model = load(old.SerializeToString())
    assert [value.name for value in model.graph.input] == ["images"]
    assert np.array_equal(result(tmp_path, model), result(tmp_path, load(net(11).SerializeToString())))


def test_a_resize_has_either_sizes_or_scales(tmp_path: Path) -> None:
    """Exporters of operator set 11 name an empty tensor of scales beside the sizes, which 13 does not take."""
    model = net(11)
    resize = helper.make_node("Resize", ["output", "", "none", "sizes"], ["larger"], name="up")
    model.graph.node.append(resize)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(0, np.float32), "none"))
    sizes = np.array([1, 6, 32, 32], np.int64)
    model.graph.initializer.append(numpy_helper.from_array(sizes, "sizes"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("larger", TensorProto.FLOAT, sizes.tolist()))
    assert result(tmp_path, load(model.SerializeToString())).shape == (1, 6, 32, 32)
    assert quantise(model.SerializeToString(), feeds(1), "minmax").model.graph.output[0].name == "larger"


def test_a_product_of_two_activations_stays_as_it_is() -> None:
    model = net()
    for source, name in (("boxes.y", "left"), ("scores.y", "right")):
        model.graph.node.append(helper.make_node("Flatten", [source], [name], axis=2))
    model.graph.node.append(helper.make_node("Transpose", ["right"], ["turned"], perm=[1, 0]))
    model.graph.node.append(helper.make_node("MatMul", ["left", "turned"], ["product"]))
    model.graph.output.append(helper.make_tensor_value_info("product", TensorProto.FLOAT, [4, 2]))
    made = quantise(model.SerializeToString(), feeds(1), "minmax").model
    product = next(node for node in made.graph.node if node.op_type == "MatMul")
    assert list(product.input) == ["left", "turned"]


def test_every_layer_reads_symmetric_signed_bytes(quantised: Quantised) -> None:
    model = quantised.model
    require_symmetric(model)
    onnx.checker.check_model(model)
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for name in layers(quantised.parent):
        node = next(node for node in model.graph.node if node.name == name)
        given, weights = output_of(model, node.input[0]), output_of(model, node.input[1])
        assert (given.op_type, weights.op_type) == ("DequantizeLinear", "DequantizeLinear")
        assert held[weights.input[0]].dtype == np.int8
        assert held[weights.input[1]].shape == (held[weights.input[0]].shape[0],)  # a scale per channel
        assert held[given.input[1]].size == 1
        assert held[node.input[2]].dtype == np.float32  # the bias
    assert {node.op_type for node in model.graph.node} == {
        "Conv", "Relu", "Sigmoid", "Mul", "Concat", "QuantizeLinear", "DequantizeLinear",
    }  # fmt: skip


def test_outputs_of_layers_stay_as_they_are(quantised: Quantised) -> None:
    readers = [node.op_type for node in quantised.model.graph.node if "middle.y" in node.input]
    assert sorted(readers) == ["Mul", "Sigmoid"]


def test_it_computes_nearly_the_same(quantised: Quantised, tmp_path: Path) -> None:
    before, after = result(tmp_path, quantised.parent), result(tmp_path, quantised.model)
    assert 0 < np.abs(before - after).max() < 0.1


def test_a_layer_left_alone_reads_what_it_read(quantised: Quantised, tmp_path: Path) -> None:
    model = left_alone(quantised.model, quantised.parent, {layer("middle")})
    onnx.checker.check_model(model, full_check=True)
    middle = next(node for node in model.graph.node if node.name == layer("middle"))
    assert list(middle.input) == ["a", "middle.w", "middle.b"]
    kinds = [node.op_type for node in model.graph.node]
    # Four weights and three shared inputs; the two heads share one, so what is gone is a weight and an input.
    assert kinds.count("QuantizeLinear") == 2
    assert kinds.count("DequantizeLinear") == 5
    assert next(node for node in quantised.model.graph.node if node.name == layer("middle")).input[0] != "a"


def test_with_all_layers_left_alone_it_is_the_parent(quantised: Quantised, tmp_path: Path) -> None:
    model = left_alone(quantised.model, quantised.parent, layers(quantised.parent))
    assert "DequantizeLinear" not in {node.op_type for node in model.graph.node}
    assert np.array_equal(result(tmp_path, model), result(tmp_path, quantised.parent))


def test_what_nobody_reads_goes_and_the_rest_is_in_order() -> None:
    model = net()
    nodes = list(model.graph.node)
    model.graph.node.append(helper.make_node("Neg", ["a"], ["unread"]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "unread.w"))
    shuffled = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(shuffled)
    drop_unused(model)
    assert len(model.graph.node) == len(nodes)
    assert "unread.w" not in {tensor.name for tensor in model.graph.initializer}
    onnx.checker.check_model(model)  # it insists on the order


@pytest.mark.parametrize("method", ["entropy", "percentile", "minmax"])
def test_the_layer_with_an_outlier_is_the_most_sensitive(method: str) -> None:
    made = quantise(net(outlier=300.0).SerializeToString(), feeds(), method)  # type: ignore[arg-type]
    errors = layer_errors(made, feeds(2))
    assert set(errors) == set(layers(made.parent))
    assert next(iter(errors)) == layer("middle")
    assert list(errors.values()) == sorted(errors.values(), reverse=True)
    assert all(0 < error < 1 for error in errors.values())


def test_the_quantiser_says_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []
    quantise(net().SerializeToString(), feeds(6), "entropy", done.append)
    assert capsys.readouterr().out == ""
    assert done == [4, 6]


def test_a_graph_that_takes_other_pictures_is_refused() -> None:
    wrong: list[dict[str, Tensor]] = [{"images": np.zeros((1, 3, 9, 9), np.float32)}]
    with pytest.raises(PackageError, match="the graph cannot be calibrated"):
        quantise(net().SerializeToString(), wrong, "minmax")


def constant(model: onnx.ModelProto, ending: str, array: Tensor) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name.endswith(ending))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def unsigned(model: onnx.ModelProto) -> None:
    constant(model, "_zero_point", np.array(128, np.uint8))


def shifted(model: onnx.ModelProto) -> None:
    constant(model, "_zero_point", np.array(3, np.int8))


def infinite(model: onnx.ModelProto) -> None:
    constant(model, "_scale", np.array(np.inf, np.float32))


def naught(model: onnx.ModelProto) -> None:
    constant(model, "_scale", np.array(0, np.float32))


def integer(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("ConvInteger", ["x", "w"], ["y"], name="whole"))


def foreign(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("QGemm", ["x"], ["y"], name="own", domain="com.microsoft"))


def without_zero(model: onnx.ModelProto) -> None:
    del next(node for node in model.graph.node if node.op_type == "QuantizeLinear").input[2]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unsigned, "is not symmetric in signed 8 bits"),
        (shifted, "is not symmetric in signed 8 bits"),
        (without_zero, "is not symmetric in signed 8 bits"),
        (infinite, "has a scale that is not a positive number"),
        (naught, "has a scale that is not a positive number"),
        (integer, r"holds ConvInteger \(whole\)"),
        (foreign, r"holds QGemm \(own\)"),
    ],
)
def test_what_tensorrt_does_not_take(
    quantised: Quantised, spoil: Callable[[onnx.ModelProto], None], words: str
) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(quantised.model)
    spoil(model)
    with pytest.raises(PackageError, match=words):
        require_symmetric(model)
