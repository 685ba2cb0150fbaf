"""From an ONNX file to a serialised engine, by TensorRT's own calls: the same ones in 10.3 and in 11.

The network is strongly typed: the precision of each layer is what the ONNX file says, and no builder flag changes
it. Nothing here may use what one of the releases lacks; a test walks this file and looks up each name.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from edge_runtime.engines.errors import BuildFailed
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.perception.backends.tensorrt.log import EngineLog, one_line, says_memory
from edge_runtime.perception.backends.tensorrt.plugins import PluginLibrary, load_plugins

_MOST_LINES: Final = 40
"""Kept of what TensorRT says in a build."""

_MOST_ERRORS: Final = 8
_PERIOD_S: Final = 0.2
"""Between two steps of a phase that are told; a phase may have thousands."""


class NetworkRefused(BuildFailed):
    """TensorRT builds no engine of this model.

    Args:
        text: one sentence.
        log: what TensorRT said, oldest first.
    """

    def __init__(self, text: str, log: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.log = tuple(log)


def make_monitor(trt: Any, tell: Callable[[BuildProgress], None]) -> Any:
    """A TensorRT progress monitor that tells phases and their steps; called from several threads."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self._phases: dict[str, tuple[str, int, float]] = {}
            self._lock = Lock()

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            with self._lock:
                self._phases[phase_name] = (parent_phase or "", int(num_steps), time.monotonic())
                tell(BuildProgress(phase_name, 0, int(num_steps), parent_phase or ""))

        def step_complete(self, phase_name: str, step: int) -> bool:
            with self._lock:
                parent, steps, told = self._phases.get(phase_name, ("", 0, 0.0))
                now = time.monotonic()
                if now - told >= _PERIOD_S:
                    self._phases[phase_name] = (parent, steps, now)
                    tell(BuildProgress(phase_name, int(step) + 1, steps, parent))
            return True

        def phase_finish(self, phase_name: str) -> None:
            with self._lock:
                parent, steps, _ = self._phases.pop(phase_name, ("", 0, 0.0))
                tell(BuildProgress(phase_name, steps, steps, parent))

    return Monitor()


def parse_network(trt: Any, builder: Any, log: EngineLog, model: bytes, path: Path) -> tuple[Any, Any]:
    """The strongly typed network of an ONNX file.

    Args:
        trt: the module.
        builder: of it.
        log: of it.
        model: the file's bytes, as they were hashed.
        path: where it lies, for files with weights beside it.

    Returns:
        The network, and the parser, which must live as long: it holds the weights.

    Raises:
        NetworkRefused: it cannot be parsed; the text has what the parser says.
    """
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser, mark = trt.OnnxParser(network, log.logger), log.mark()
    if parser.parse(model, str(path)):
        return network, parser
    errors = [_parser_error(parser.get_error(index)) for index in range(min(parser.num_errors, _MOST_ERRORS))]
    first = errors[0] if errors else "it gives no reason"
    raise NetworkRefused(
        f"TensorRT cannot read the model: {first}", log=(*errors[1:], *log.since(mark, _MOST_LINES))
    )


def _parser_error(error: Any) -> str:
    node = f" at node {error.node_name()} ({error.node_operator()})" if error.node() >= 0 else ""
    return one_line(f"{error.desc()}{node}")


def configure(trt: Any, builder: Any, network: Any, recipe: EngineRecipe, cache: bytes) -> Any:
    """A builder configuration as the recipe wants it, with a timing cache.

    Args:
        trt: the module.
        builder: of it.
        network: parsed.
        recipe: what is built.
        cache: a serialised timing cache; empty for a new one, and where TensorRT refuses it a new one is used.

    Raises:
        NetworkRefused: the network's inputs are not those of the recipe.
    """
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, recipe.workspace_bytes)
    if "TF32" not in recipe.flags:  # TensorRT sets it by itself
        config.clear_flag(trt.BuilderFlag.TF32)
    timing = config.create_timing_cache(cache)
    if timing is None or not config.set_timing_cache(timing, ignore_mismatch=False):
        config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
    _add_profile(builder, network, config, recipe)
    return config


def _add_profile(builder: Any, network: Any, config: Any, recipe: EngineRecipe) -> None:
    wanted = {profile.input: profile for profile in recipe.profiles}
    moving: list[str] = []
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if any(dim < 0 for dim in tuple(tensor.shape)):
            moving.append(tensor.name)
    if missing := [name for name in moving if name not in wanted]:
        raise NetworkRefused(
            f"the input {missing[0]} may have any size and the package does not say which: declare its size"
        )
    if not moving:
        return
    profile = builder.create_optimization_profile()
    for name in moving:
        sizes = wanted[name]
        profile.set_shape(name, sizes.minimum, sizes.optimum, sizes.maximum)
    if config.add_optimization_profile(profile) < 0:
        raise NetworkRefused("TensorRT refuses the sizes that the package asks for")


def build(builder: Any, network: Any, config: Any, log: EngineLog) -> bytes:
    """The serialised engine.

    Raises:
        NetworkRefused: TensorRT builds none; the text has its own words.
    """
    mark = log.mark()
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        lines = log.since(mark, _MOST_LINES)
        last = lines[-1] if lines else "it gives no reason"
        why = "there was not enough memory" if says_memory(lines) else last
        raise NetworkRefused(f"TensorRT builds no engine of this model: {why}", log=lines)
    return bytes(plan)


def device_memory(trt: Any, log: EngineLog, engine: bytes, plugins: Sequence[PluginLibrary]) -> int:
    """Bytes of scratch memory that one execution context takes, by the engine's own word.

    Raises:
        NetworkRefused: TensorRT does not load what it has just built.
        PluginRefused: a plugin library is not loaded.
    """
    mark = log.mark()
    runtime = trt.Runtime(log.logger)
    load_plugins(runtime, plugins, log)
    loaded = runtime.deserialize_cuda_engine(engine)
    if loaded is None:
        raise NetworkRefused(
            "TensorRT refuses the engine that it has just built", log.since(mark, _MOST_LINES)
        )
    return int(loaded.device_memory_size_v2)
