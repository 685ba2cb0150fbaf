"""A package loaded with a backend that its caller opens: an engine, with frames prepared on either side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.errors import PackageError
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.perception.backends import Backend
from edge_runtime.perception.backends.tensorrt import EngineRefused
from edge_runtime.perception.backends.tensorrt.device_preprocess import DevicePreprocessor
from edge_runtime.perception.model import load_model
from edge_runtime.perception.preprocess import Preprocessor
from tests.rigs.packages import write_package
from tests.rigs.small_engines import doubling, opened
from tests.rigs.tensorrt_double import Double, Faults, build_engine, installed

PLACES = 8 * 8 + 4 * 4 + 2 * 2


def brightness_detector() -> bytes:
    """A YOLOX head for 64x64 pixels that sees a person in the first cell of a white picture only."""
    head = np.zeros((1, PLACES, 7), np.float32)
    head[0, 0, 4:6] = 1 / 255  # objectness and the score of the first label, times the picture's mean
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
            helper.make_node("Constant", [], ["head"], value=numpy_helper.from_array(head)),
            helper.make_node("Mul", ["head", "mean"], ["output"]),
        ],
        "brightness",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, 3, 64, 64))],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, (1, PLACES, 7))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return bytes(model.SerializeToString())


@pytest.fixture
def orin() -> Iterator[Double]:
    with installed("10.3.0") as double:
        yield double
        assert double.ledger().empty, str(double.ledger())


@pytest.fixture
def package(tmp_path: Path) -> ModelPackage:
    return open_package(write_package(tmp_path / "tiny", weights=brightness_detector()))


@pytest.mark.parametrize(("prepare", "kind"), [("gpu", DevicePreprocessor), ("cpu", Preprocessor)])
def test_frames_go_through_a_model_on_either_side(
    orin: Double, package: ModelPackage, prepare: Literal["cpu", "gpu"], kind: type[Any]
) -> None:
    engine = build_engine(orin, package.weights.read_bytes())

    def open_backend(given: ModelPackage) -> Backend:
        assert given is package
        return opened(orin, engine, prepare=prepare, input_spec=given.manifest.input)

    model = load_model(package, open_backend=open_backend)
    assert isinstance(model.preprocessor, kind)
    assert model.backend.facts.preparation == prepare
    tensor = model.preprocessor.allocate(1)
    for brightness, seen in ((255, 1), (0, 0), (255, 1)):
        frame = np.full((128, 128, 3), brightness, np.uint8)
        geometry = model.preprocessor.fill(frame, tensor, 0, None)
        outputs = model.backend.infer(model.feeds(tensor, 1), 30)
        found = model.postprocessor(outputs, 0, geometry)
        assert len(found.score) == seen
    model.close()


def test_a_backend_that_does_not_fit_the_manifest_is_closed(orin: Double, package: ModelPackage) -> None:
    engine = build_engine(orin, doubling())
    with pytest.raises(PackageError, match="the manifest feeds"):
        load_model(package, open_backend=lambda _: opened(orin, engine))
    assert orin.ledger().empty


def test_a_backend_that_does_not_open_is_the_callers_error(orin: Double, package: ModelPackage) -> None:
    engine = build_engine(orin, package.weights.read_bytes())
    orin.set_faults(Faults(deserialise_fails=1))
    with pytest.raises(EngineRefused, match="does not load the engine"):
        load_model(package, open_backend=lambda _: opened(orin, engine))
