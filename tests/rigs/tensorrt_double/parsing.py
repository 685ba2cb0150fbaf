"""Network and ONNX parser of the double: onnx reads, and onnxruntime says whether the graph is sound."""

from pathlib import Path
from typing import Any

import onnx
import onnx.external_data_helper

from tests.rigs.tensorrt_double.plan import session, tensors_of
from tests.rigs.tensorrt_double.plugins import RegistryAct, is_foreign
from tests.rigs.tensorrt_double.stage import Stage


class TensorAct:
    """`ITensor`."""

    settable = ("name",)

    def __init__(self, stage: Stage, tensor: Any) -> None:
        self._stage = stage
        self.tensor = tensor
        self.name = tensor.name
        self.is_network_input = tensor.is_input
        self.is_network_output = not tensor.is_input
        self.is_shape_tensor = False
        self.is_execution_tensor = True

    @property
    def dtype(self) -> Any:
        return self._stage.member("DataType", self.tensor.dtype)

    @property
    def shape(self) -> Any:
        return self._stage.classes["Dims"](self.tensor.shape)


class NetworkAct:
    """`INetworkDefinition`."""

    settable = ("name",)

    def __init__(self, stage: Stage, flags: int, plugins: RegistryAct) -> None:
        self._stage = stage
        self.plugins = plugins
        self._flags = flags
        self.name = "Unnamed Network 0"
        self.model: onnx.ModelProto | None = None
        self.tensors: tuple[Any, ...] = ()

    @property
    def flags(self) -> int:
        return self._flags

    def get_flag(self, flag: Any) -> bool:
        return bool(self._flags >> int(flag) & 1)

    @property
    def strongly_typed(self) -> bool:
        flags = self._stage.classes["NetworkDefinitionCreationFlag"].__members__
        return "EXPLICIT_BATCH" not in flags or bool(self._flags >> int(flags["STRONGLY_TYPED"]) & 1)

    def _side(self, *, inputs: bool) -> list[Any]:
        return [t for t in self.tensors if t.is_input is inputs]

    @property
    def num_inputs(self) -> int:
        return len(self._side(inputs=True))

    @property
    def num_outputs(self) -> int:
        return len(self._side(inputs=False))

    @property
    def num_layers(self) -> int:
        return len(self.model.graph.node) if self.model else 0

    @property
    def has_implicit_batch_dimension(self) -> bool:
        return False

    def get_input(self, index: int) -> Any:
        return self._tensor(self._side(inputs=True), index)

    def get_output(self, index: int) -> Any:
        return self._tensor(self._side(inputs=False), index)

    def _tensor(self, side: list[Any], index: int) -> Any:
        return (
            self._stage.make("ITensor", TensorAct(self._stage, side[index]))
            if 0 <= index < len(side)
            else None
        )


class ParserErrorAct:
    """`ParserError`."""

    def __init__(self, stage: Stage, text: str, code: str, node: tuple[int, str, str]) -> None:
        self._stage, self._text, self._code = stage, text, code
        self._node = node

    def code(self) -> Any:
        return self._stage.member("ErrorCode", self._code)

    def desc(self) -> str:
        return self._text

    def file(self) -> str:
        return "ModelImporter.cpp"

    def func(self) -> str:
        return "importModel"

    def line(self) -> int:
        return 1

    def node(self) -> int:
        return self._node[0]

    def node_name(self) -> str:
        return self._node[1]

    def node_operator(self) -> str:
        return self._node[2]


class ParserAct:
    """`OnnxParser`: reads with onnx, and onnxruntime says whether the graph is sound."""

    stage: Stage

    def __init__(self, owner: Any, network: Any, logger: Any) -> None:
        self._network: NetworkAct = network._act
        self._logger = logger
        self._errors: list[ParserErrorAct] = []

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> Any:
        return self.stage.make("ParserError", self._errors[index])

    def clear_errors(self) -> None:
        self._errors = []

    def parse_from_file(self, model: str) -> bool:
        return self.parse(Path(model).read_bytes(), model)

    def parse(self, model: Any, path: str | None = None) -> bool:
        try:
            parsed = onnx.load_model_from_string(bytes(model))
        except Exception:  # noqa: BLE001 - whatever protobuf raises
            return self._refuse("Failed to parse the ONNX model.", "MODEL_DESERIALIZE_FAILED")
        if text := self.stage.device.faults.parse_fails:
            return self._refuse(text, "INTERNAL_ERROR")
        if (bad := self._unknown_operator(parsed)) is not None:
            place, node = bad
            text = f"No importer registered for op: {node.op_type}. Attempted to import as plugin."
            return self._refuse(text, "UNSUPPORTED_NODE", (place, node.name, node.op_type))
        try:
            if path:
                onnx.external_data_helper.load_external_data_for_model(parsed, str(Path(path).parent))
            self._network.tensors = tensors_of(parsed)
            session(parsed.SerializeToString())
        except KeyError as error:
            return self._refuse(f"Unsupported data type {error}.", "UNSUPPORTED_NODE_DATATYPE")
        except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises
            return self._refuse(str(error).splitlines()[0], "INVALID_GRAPH")
        self._network.model = parsed
        return True

    def _unknown_operator(self, model: onnx.ModelProto) -> tuple[int, Any] | None:
        for place, node in enumerate(model.graph.node):
            missing = is_foreign(node) and node.op_type not in self._network.plugins.creators
            if missing or node.op_type in self.stage.device.faults.refused_operators:
                return place, node
            if node.op_type == "QuantizeLinear" and self._asymmetric(model, node):
                return place, node
        return None

    @staticmethod
    def _asymmetric(model: onnx.ModelProto, node: Any) -> bool:
        """TensorRT quantises symmetrically: a zero point must be zero, and the type int8."""
        if len(node.input) < 3:
            return True  # the default type of a zero point is uint8
        for tensor in model.graph.initializer:
            if tensor.name == node.input[2]:
                return tensor.data_type == onnx.TensorProto.UINT8 or bool(
                    onnx.numpy_helper.to_array(tensor).any()
                )
        return False

    def _refuse(self, text: str, code: str, node: tuple[int, str, str] = (-1, "", "")) -> bool:
        self._errors.append(ParserErrorAct(self.stage, text, code, node))
        self.stage.log(self._logger, "ERROR", f"ModelImporter.cpp: {text}")
        return False
