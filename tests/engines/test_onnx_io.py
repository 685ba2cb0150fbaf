"""What an ONNX file declares, read without the onnx package, compared with what that package reads."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.engines.onnx_io import DTYPES, read_declared
from edge_runtime.errors import PackageError

NOT_ONNX = "not_a_model_saved_web_page.onnx"


def test_every_real_model_is_read_as_onnx_reads_it(onnx_models: Path) -> None:
    for path in sorted(onnx_models.glob("*.onnx")):
        if path.name == NOT_ONNX:
            continue
        graph = onnx.load(str(path)).graph
        held = {tensor.name for tensor in graph.initializer}
        declared = read_declared(path)
        for mine, theirs in (
            (declared.inputs, [value for value in graph.input if value.name not in held]),
            (declared.outputs, list(graph.output)),
        ):
            assert [tensor.name for tensor in mine] == [value.name for value in theirs], path.name
            for tensor, value in zip(mine, theirs, strict=True):
                kind = value.type.tensor_type
                assert tensor.dtype == DTYPES[kind.elem_type]
                assert tensor.shape == tuple(dim.dim_value or None for dim in kind.shape.dim), path.name
        assert declared.external == ()


def test_every_data_type_has_numpys_name() -> None:
    for number, name in DTYPES.items():
        assert helper.tensor_dtype_to_np_dtype(number) == np.dtype(name)


def test_files_with_weights_beside_the_graph_are_named(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.zeros((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [weights],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph),
        str(path),
        save_as_external_data=True,
        location="m.weights",
        size_threshold=0,
    )
    declared = read_declared(path)
    assert declared.external == ("m.weights",)
    assert [tensor.name for tensor in declared.inputs] == ["x"]
    assert declared.inputs[0].shape == (None, 64)


def _outside(location: str) -> TensorProto:
    tensor = TensorProto(name=f"of {location}", data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    return tensor


def test_weights_in_nodes_loops_and_functions_are_named_too(tmp_path: Path) -> None:
    """Two models that differ in such a file alone would share a key, and with it an engine."""
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["y"], value=_outside("inner.bin"))], "inner", [], [result]
    )
    sparse = onnx.SparseTensorProto(values=_outside("values.bin"), indices=_outside("indices.bin"), dims=[4])
    nodes = [
        helper.make_node("Constant", [], ["a"], value=_outside("constant.bin")),
        helper.make_node("Constant", [], ["b"], sparse_value=sparse),
        helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner),
    ]
    fed = helper.make_tensor_value_info("x", TensorProto.BOOL, [1])
    graph = helper.make_graph(nodes, "g", [fed], [result], [_outside("held.bin")])
    graph.sparse_initializer.append(onnx.SparseTensorProto(values=_outside("sparse.bin"), dims=[4]))
    body = [helper.make_node("Constant", [], ["y"], value=_outside("function.bin"))]
    function = helper.make_function("mine", "F", [], ["y"], body, [helper.make_opsetid("", 17)])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, functions=[function]).SerializeToString())
    names = ("constant", "function", "held", "indices", "inner", "sparse", "values")
    assert read_declared(path).external == tuple(f"{name}.bin" for name in names)


def _nested(times: int) -> bytes:
    """A model with a graph in a node in a graph, by hand: the onnx package refuses to write so many."""

    def field(number: int, body: bytes) -> bytes:
        size, digits = len(body), b""
        while size > 127:
            digits, size = digits + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + digits + bytes([size]) + body

    graph = b""
    for _ in range(times):
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


def test_graphs_within_graphs_without_end_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_nested(2000))
    with pytest.raises(PackageError, match="graphs within graphs"):
        read_declared(path)
    path.write_bytes(_nested(20))
    with pytest.raises(PackageError, match="no graph with an output"):
        read_declared(path)


@pytest.mark.parametrize("damage", ["page", "empty", "cut", "noise", "absent"])
def test_what_is_no_onnx_file_is_one_sentence(onnx_models: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.onnx"
    whole = (onnx_models / "yunet_face_2026may.onnx").read_bytes()
    if damage != "absent":
        path.write_bytes(
            {
                "page": (onnx_models / NOT_ONNX).read_bytes(),
                "empty": b"",
                "cut": whole[: len(whole) // 2],
                "noise": bytes(range(256)) * 8,
            }[damage]
        )
    with pytest.raises(PackageError) as caught:
        read_declared(path)
    assert "\n" not in str(caught.value)
