"""Deserialisation and engines of the double."""

import json
import math
from collections.abc import Mapping
from typing import Any

from tests.rigs.tensorrt_double.executing import ContextAct
from tests.rigs.tensorrt_double.memory import Lost, NoMemory
from tests.rigs.tensorrt_double.plan import DamagedPlan, OutputShapes, Plan, Tensor, read_plan, session
from tests.rigs.tensorrt_double.plugins import RegistryAct
from tests.rigs.tensorrt_double.stage import Owned, Stage

_SERIALISATION_VERSION = {"10.3.0": 237, "10.13.3": 241, "11.4.0": 251}
"""Made up, but different."""


class RuntimeAct(Owned):
    """`Runtime`."""

    settable = (
        "engine_host_code_allowed",
        "max_threads",
        "DLA_core",
        "temporary_directory",
        "error_recorder",
    )
    stage: Stage

    def __init__(self, owner: Any, logger: Any) -> None:
        super().__init__(self.stage, "Runtime")
        self._logger = logger
        self._plugins = RegistryAct(self.stage, logger)
        self.engine_host_code_allowed = False
        self.max_threads = 1
        self.DLA_core = -1
        self.num_DLA_cores = 0
        self.temporary_directory = ""
        self.error_recorder = None

    @property
    def logger(self) -> Any:
        return self._logger

    def get_plugin_registry(self) -> Any:
        return self.stage.make("IPluginRegistry", self._plugins)

    def deserialize_cuda_engine(self, **given: Any) -> Any:
        (data,) = given.values()
        if "serialized_engine" not in given:
            raise self.stage.device.misuse("the double reads engines from memory only")
        return self._deserialise(bytes(data))

    def _deserialise(self, data: bytes) -> Any:
        device, faults = self.stage.device, self.stage.device.faults
        if device.count.among_first("deserialise", faults.deserialise_fails):
            return self._no(*faults.deserialise_lines)
        try:
            plan = read_plan(data)
        except DamagedPlan as error:
            return self._no(_serialisation(f"assertion magicTagRead == kMAGIC_TAG failed. {error}"))
        if why := self._why_not(plan):
            return self._no(why)
        if plan.gpu != device.gpu.name:
            text = "Using an engine plan file across different models of devices is not supported and is likely to "
            self.stage.log(self._logger, "WARNING", text + "affect performance or even cause errors.")
        try:
            return self.stage.make("ICudaEngine", EngineAct(self.stage, plan, self, self._logger))
        except NoMemory as error:
            return self._no(_refusal("2: OutOfMemory", str(error)))
        except Lost as error:
            return self._no(_refusal("1: Cuda Runtime", str(error)))

    def _why_not(self, plan: Plan) -> str | None:
        ours, theirs = self.stage.device.gpu.compute_capability, plan.compute_capability
        if plan.version != self.stage.version:
            found, wanted = _version_tag(plan.version), _version_tag(self.stage.version)
            return _serialisation(
                "assertion stdVersionRead == kSERIALIZATION_VERSION failed.Version tag does not match. "
                f"Note: Current Version: {wanted}, Serialized Engine Version: {found}"
            )
        if theirs != ours:
            return _refusal(
                "1: Internal Error",
                "The engine plan file is generated on an incompatible device, expecting compute "
                f"{ours[0]}.{ours[1]} got compute {theirs[0]}.{theirs[1]}, please rebuild.",
            )
        if missing := [name for name in plan.plugins if name not in self._plugins.creators]:
            return _refusal(
                "1: Internal Error", f"Cannot find plugin: {missing[0]}, version: 1, namespace: ."
            )
        if "VERSION_COMPATIBLE" in plan.flags and not self.engine_host_code_allowed:
            return _refusal("4: API Usage Error", "engine host code is not allowed")
        return None

    def _no(self, *lines: str) -> None:
        for line in lines:
            self.stage.log(self._logger, "ERROR", line)


def _refusal(code: str, text: str) -> str:
    return f"IRuntime::deserializeCudaEngine: Error Code {code} ({text})"


def _serialisation(text: str) -> str:
    return _refusal("1: Serialization", f"Serialization {text}")


def _version_tag(version: str) -> int:
    return _SERIALISATION_VERSION.get(".".join(version.split(".")[:3]), 200)


class EngineAct(Owned):
    """`ICudaEngine`; its weights are device memory as long as it lives."""

    def __init__(self, stage: Stage, plan: Plan, runtime: RuntimeAct, logger: Any) -> None:
        super().__init__(stage, "ICudaEngine")
        self.plan = plan
        self.logger_ = logger
        self._runtime = runtime  # TensorRT keeps it alive as well
        stage.device.hold(self, max(1, len(plan.model)), "weights of an engine")
        self.session = session(plan.model)
        self.outputs = OutputShapes(plan, self.session)
        self.by_name: Mapping[str, Tensor] = {t.name: t for t in plan.tensors}
        self.name = "Unnamed Network 0"
        self.num_layers = 1
        self.refittable = False
        self.num_aux_streams = 0
        self.has_implicit_batch_dimension = False
        self.streamable_weights_size = 0

    @property
    def num_io_tensors(self) -> int:
        return len(self.plan.tensors)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self.plan.profiles)

    @property
    def device_memory_size_v2(self) -> int:
        return max(self.get_device_memory_size_for_profile_v2(n) for n in range(len(self.plan.profiles)))

    @property
    def device_memory_size(self) -> int:
        return self.device_memory_size_v2

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        shapes = self.plan.profiles[profile_index].values()
        return 2 * sum(4 * math.prod(high) for _, _, high in shapes) + self.plan.workspace

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        return self.get_device_memory_size_for_profile_v2(profile_index)

    @property
    def profiling_verbosity(self) -> Any:
        return self.stage.member("ProfilingVerbosity", "LAYER_NAMES_ONLY")

    @property
    def hardware_compatibility_level(self) -> Any:
        return self.stage.member("HardwareCompatibilityLevel", "NONE")

    @property
    def engine_capability(self) -> Any:
        return self.stage.member("EngineCapability", "STANDARD")

    def get_tensor_name(self, index: int) -> str:
        if not 0 <= index < len(self.plan.tensors):
            self._complain(f"get_tensor_name: index {index} is out of range")
            return ""
        return self.plan.tensors[index].name

    def get_tensor_mode(self, name: str) -> Any:
        found = self._known(name, "get_tensor_mode")
        mode = "NONE" if found is None else "INPUT" if found.is_input else "OUTPUT"
        return self.stage.member("TensorIOMode", mode)

    def get_tensor_shape(self, name: str) -> Any:
        found = self._known(name, "get_tensor_shape")
        return self.stage.classes["Dims"](found.shape if found else ())

    def get_tensor_dtype(self, name: str) -> Any:
        found = self._known(name, "get_tensor_dtype")
        return self.stage.member("DataType", found.dtype if found else "FLOAT")

    def get_tensor_location(self, name: str) -> Any:
        self._known(name, "get_tensor_location")
        return self.stage.member("TensorLocation", "DEVICE")

    def get_tensor_format(self, name: str, profile_index: int = 0) -> Any:
        self._known(name, "get_tensor_format")
        return self.stage.member("TensorFormat", "LINEAR")

    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        return "Row major linear format (kLINEAR)" if self._known(name, "get_tensor_format_desc") else ""

    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return -1

    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        return -1

    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return -1

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Any]:
        found = self._known(name, "get_tensor_profile_shape")
        if found is None or not found.is_input or not 0 <= profile_index < len(self.plan.profiles):
            self._complain(f"get_tensor_profile_shape: {name} has no shapes in profile {profile_index}")
            return []
        return [self.stage.classes["Dims"](s) for s in self.plan.profiles[profile_index][name]]

    def is_shape_inference_io(self, name: str) -> bool:
        return False

    def serialize(self) -> Any:
        return self.stage.classes["IHostMemory"](self.plan.serialise())

    def create_engine_inspector(self) -> Any:
        return self.stage.make("EngineInspector", InspectorAct(self.plan))

    def create_execution_context(self, strategy: Any = None, runtime_config: Any = None) -> Any:
        device = self.stage.device
        managed = strategy is not None and strategy.name == "USER_MANAGED"
        if device.count.among_first("context", device.faults.context_fails):
            return self._complain("ICudaEngine::createExecutionContext: Error Code 1: Cuda Runtime")
        try:
            return self.stage.make("IExecutionContext", ContextAct(self.stage, self, user_managed=managed))
        except NoMemory as error:
            return self._complain(f"ICudaEngine::createExecutionContext: Error Code 2: OutOfMemory ({error})")
        except Lost as error:
            return self._complain(
                f"ICudaEngine::createExecutionContext: Error Code 1: Cuda Runtime ({error})"
            )

    def create_execution_context_without_device_memory(self) -> Any:
        return self.stage.make("IExecutionContext", ContextAct(self.stage, self, user_managed=True))

    def _known(self, name: str, what: str) -> Tensor | None:
        found = self.by_name.get(name)
        if found is None:
            self._complain(f"ICudaEngine::{what}: Error Code 3: API Usage Error (no tensor is called {name})")
        return found

    def _complain(self, text: str) -> None:
        self.stage.log(self.logger_, "ERROR", text)


class InspectorAct:
    """`EngineInspector`."""

    settable = ("execution_context",)

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.execution_context: Any = None

    def get_engine_information(self, format: Any) -> str:  # noqa: A002 - TensorRT's name
        return json.dumps({"Layers": ["onnx"], "Bindings": [t.name for t in self._plan.tensors]})

    def get_layer_information(self, layer_index: int, format: Any) -> str:  # noqa: A002
        return json.dumps("onnx")
