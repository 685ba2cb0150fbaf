"""Which layers lose most by 8 bits: each is computed beside its 32-bit self, on the same inputs.

One graph computes all of them: it is the parent, and every layer has a twin whose input and weights went
through Q/DQ. What counts is the twin's error as a share of the layer's own signal. To quantise each layer alone
and look at the outputs finds the same worst layer of YOLOX-Nano, but takes one session for each of its 113 layers:
82 s instead of 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edge_runtime.authoring.quantize_graph import drop_unused, layers, left_alone
from edge_runtime.authoring.quantize_int8 import Quantised
from edge_runtime.packages.scratch import scratch_directory
from edge_runtime.perception.backends import Tensor, load_backend

_TWIN = "@int8"


def layer_errors(
    quantised: Quantised, feeds: Iterable[Mapping[str, Tensor]], threads: int = 1
) -> dict[str, float]:
    """Energy of each layer's error as a share of its energy, over some pictures; the worst first.

    Args:
        quantised: with Q/DQ around every layer.
        feeds: prepared pictures.
        threads: of the session.

    Raises:
        BackendError: the graph does not run.
    """
    import onnx  # noqa: PLC0415 (extra `models`, not on the device)

    names = layers(quantised.parent)
    with scratch_directory("sensitivity") as scratch:
        path = scratch / "twins.onnx"
        onnx.save(_twins(quantised, names), str(path))
        backend = load_backend(path, threads=threads)
        try:
            energy = dict.fromkeys((spec.name for spec in backend.outputs), 0.0)
            for feed in feeds:
                for spec, value in zip(backend.outputs, backend.infer(feed), strict=True):
                    energy[spec.name] += float(value)
        finally:
            backend.close()
    errors = {name: energy[f"{name}@lost"] / (energy[f"{name}@whole"] or 1.0) for name in names}
    return dict(sorted(errors.items(), key=lambda item: -item[1]))


def _twins(quantised: Quantised, names: Sequence[str]) -> Any:
    """The parent with every layer's twin; of each layer the energy lost and the energy there is, as scalars."""
    import onnx  # noqa: PLC0415
    from onnx import TensorProto, helper  # noqa: PLC0415

    in_8_bits = {node.name: node for node in quantised.model.graph.node}
    model = left_alone(quantised.model, quantised.parent, names)
    held = {tensor.name for tensor in model.graph.initializer}
    model.graph.initializer.extend(
        tensor for tensor in quantised.model.graph.initializer if tensor.name not in held
    )
    have = {name for node in model.graph.node for name in node.output}
    extra = [node for node in quantised.model.graph.node if node.output[0] not in have]
    outputs = []
    for name in names:
        twin = onnx.NodeProto()
        twin.CopyFrom(in_8_bits[name])
        twin.name, output = f"{name}{_TWIN}", twin.output[0]
        twin.output[0] = f"{name}{_TWIN}"
        extra += [
            twin,
            helper.make_node("Sub", [twin.output[0], output], [f"{name}@difference"]),
            helper.make_node("ReduceSumSquare", [f"{name}@difference"], [f"{name}@lost"], keepdims=0),
            helper.make_node("ReduceSumSquare", [output], [f"{name}@whole"], keepdims=0),
        ]
        outputs += [f"{name}@lost", f"{name}@whole"]
    model.graph.node.extend(extra)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in outputs)
    drop_unused(model)
    return model
