"""The builder of the double: refuses what TensorRT refuses, takes its time, and makes a plan."""

import time
from typing import Any, Final

from tests.rigs.tensorrt_double.configuring import ConfigAct, ProfileAct
from tests.rigs.tensorrt_double.parsing import NetworkAct
from tests.rigs.tensorrt_double.plan import Plan, Shapes, first_problem
from tests.rigs.tensorrt_double.plugins import RegistryAct, foreign_operators
from tests.rigs.tensorrt_double.stage import Stage

_PRECISION_FLAGS: Final = frozenset({"FP16", "BF16", "INT8", "FP8", "INT4", "FP4"})
_STEP_S: Final = 0.02


class BuilderAct:
    """`Builder`."""

    settable = ("max_threads",)
    stage: Stage

    def __init__(self, owner: Any, logger: Any) -> None:
        self._logger = logger
        self._plugins = RegistryAct(self.stage, logger)
        self.max_threads = 1
        self.num_DLA_cores = 0
        self.platform_has_fast_fp16 = True
        self.platform_has_fast_int8 = True
        self.platform_has_tf32 = True

    @property
    def logger(self) -> Any:
        return self._logger

    def get_plugin_registry(self) -> Any:
        return self.stage.make("IPluginRegistry", self._plugins)

    def create_network(self, flags: int = 0) -> Any:
        return self.stage.make("INetworkDefinition", NetworkAct(self.stage, int(flags), self._plugins))

    def create_builder_config(self) -> Any:
        return self.stage.make("IBuilderConfig", ConfigAct(self.stage, self._logger))

    def create_optimization_profile(self) -> Any:
        return self.stage.make("IOptimizationProfile", ProfileAct(self.stage))

    def is_network_supported(self, network: Any, config: Any) -> bool:
        return self._problem(network._act, config._act) is None

    def reset(self) -> None:
        """Forgets nothing: the double keeps nothing here."""

    def build_serialized_network(self, network: Any, config: Any, kernel_text: Any = None) -> Any:
        faults, device = self.stage.device.faults, self.stage.device
        built, wanted = network._act, config._act
        if problem := self._problem(built, wanted):
            return self._no(f"IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error ({problem})")
        if not self._take_time(wanted.progress_monitor, faults.build_seconds):
            return self._no("IBuilder::buildSerializedNetwork: Error Code 1: the build was cancelled")
        if device.count.among_first("build", faults.build_fails):
            return self._no(*faults.build_lines)
        if wanted.pools["WORKSPACE"] > device.capacity:
            self.stage.log(self._logger, "WARNING", "the workspace limit is larger than the device's memory")
        plan = make_plan(self.stage, built, wanted)
        if wanted.cache is not None:
            wanted.cache.entries.add(f"{len(plan.model)}-{built.num_layers}")
        return self.stage.classes["IHostMemory"](plan.serialise())

    def _no(self, *lines: str) -> None:
        for line in lines:
            self.stage.log(self._logger, "ERROR", line)

    def _problem(self, network: NetworkAct, config: ConfigAct) -> str | None:
        if network.model is None:
            return "the network has no outputs"
        if network.strongly_typed and (bad := sorted(_PRECISION_FLAGS & set(config.flag_names()))):
            return f"{bad[0]} cannot be set for a strongly typed network"
        moving = [t for t in network.tensors if t.is_input and -1 in t.shape]
        if moving and not config.profiles:
            return "Network has dynamic or shape inputs, but no optimization profile has been defined."
        for tensor in moving:
            for profile in config.profiles:
                if tensor.name not in profile.shapes:
                    return f"the optimization profile has no shape for the dynamic input {tensor.name}"
                for shape in profile.shapes[tensor.name]:
                    if first_problem(
                        shape,
                        [max(d, 0) for d in tensor.shape],
                        [d if d > 0 else 1 << 30 for d in tensor.shape],
                    ):
                        return (
                            f"the optimization profile's shape {shape} does not fit the input {tensor.name}"
                        )
        return None

    def _take_time(self, monitor: Any, seconds: float) -> bool:
        """Plays the phases of a build to the progress monitor; False where it cancels."""
        steps = max(2, int(seconds / _STEP_S))
        phases = (("Building Engine", None, 2), ("Tactic Selection", "Building Engine", steps))
        if monitor is None:
            time.sleep(seconds)
            return True
        for phase in phases:
            monitor.phase_start(*phase)
        alive = True
        for step in range(steps):
            time.sleep(seconds / steps)
            alive = _told(monitor.step_complete("Tactic Selection", step))
            if not alive:
                break
        for name, _, _ in reversed(phases):
            monitor.phase_finish(name)
        return alive


def _told(answer: Any) -> bool:
    if not isinstance(answer, bool):
        raise TypeError(f"step_complete must return a bool, not {type(answer).__name__}")
    return answer


def make_plan(stage: Stage, network: NetworkAct, config: ConfigAct) -> Plan:
    """The engine of a network that was parsed."""
    assert network.model is not None
    inputs = [t for t in network.tensors if t.is_input]
    profiles: list[Shapes] = [
        {t.name: _three(profile.shapes.get(t.name) or (t.shape,) * 3) for t in inputs}
        for profile in config.profiles
    ]
    if not profiles:
        profiles = [{t.name: (t.shape, t.shape, t.shape) for t in inputs}]
    gpu = stage.device.gpu
    workspace = min(config.pools["WORKSPACE"], 1 << 20)
    return Plan(
        stage.device.faults.built_by or stage.version,
        gpu.name,
        gpu.compute_capability,
        network.tensors,
        foreign_operators(network.model),
        tuple(profiles),
        config.flag_names(),
        workspace,
        network.model.SerializeToString(),
    )


def _three(shapes: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    low, best, high = shapes
    return tuple(low), tuple(best), tuple(high)
