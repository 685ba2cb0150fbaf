"""Engines of small networks for TensorRT's double, whose outputs are known."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt import TensorRtBackend
from tests.rigs.tensorrt_double import Double, build_engine
from tests.rigs.tensorrt_double.device import NoMemory

SHAPE = (1, 3, 8, 8)
Shapes3 = tuple[Sequence[int], Sequence[int], Sequence[int]]
UP_TO_FOUR: dict[str, Shapes3] = {"images": ((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))}


def doubling(shape: Sequence[int | str] = SHAPE, dtype: str = "float32", operator: str = "Add") -> bytes:
    """An ONNX graph whose output `twice` is its input `images` added to itself, and whose `same` is the input."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    names = ("images", "twice", "same")
    values = {name: helper.make_tensor_value_info(name, kind, shape) for name in names}
    nodes = [
        helper.make_node(operator, ["images", "images"], ["twice"]),
        helper.make_node("Identity", ["images"], ["same"]),
    ]
    graph = helper.make_graph(nodes, "doubling", [values["images"]], [values["twice"], values["same"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return bytes(model.SerializeToString())


def pictures(batch: int = 1, seed: int = 0, shape: Sequence[int] = SHAPE) -> Tensor:
    """An input of the doubling network."""
    values: Tensor = np.random.default_rng(seed).random((batch, *shape[1:]), np.float32)
    return values


def opened(double: Double, engine: bytes | None = None, **options: Any) -> TensorRtBackend:
    """A backend on the double; by default of the doubling network."""
    data = build_engine(double, doubling()) if engine is None else engine
    wanted: dict[str, Any] = {"model": "cars", "open_device": double.open_cuda, **options}
    return TensorRtBackend(data, **wanted)


def dynamic(double: Double, shapes: dict[str, Shapes3] | None = None) -> bytes:
    """An engine of the doubling network for batches of 1 to 4, or as `shapes` has it."""
    return build_engine(double, doubling(("batch", 3, 8, 8)), shapes or UP_TO_FOUR)


def with_profiles(double: Double, profiles: Sequence[Sequence[Sequence[int]]]) -> bytes:
    """An engine of the doubling network with several profiles, each a minimum, an optimum and a maximum shape."""
    trt = double.tensorrt
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(doubling(("batch", 3, 8, 8)))
    config = builder.create_builder_config()
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        profile.set_shape("images", *shapes)
        config.add_optimization_profile(profile)
    return bytes(builder.build_serialized_network(network, config))


def counting_allocations(double: Double, fails_at: int) -> Callable[[], int]:
    """Let the allocation number `fails_at`, of any kind, fail as if memory were full; how many there were."""
    device, real = double.device, double.device.allocate
    count = 0

    def allocate(nbytes: int, owner: str, *, host: bool = False) -> Any:
        nonlocal count
        count += 1
        if count == fails_at:
            raise NoMemory(f"{nbytes} bytes ({owner}) do not fit")
        return real(nbytes, owner, host=host)

    device.allocate = allocate  # type: ignore[method-assign]
    return lambda: count
