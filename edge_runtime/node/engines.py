"""Where the engines of a configuration come from, and what its models ask of them."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge_runtime.config import LoadedConfig
from edge_runtime.config.node import ModelConfig
from edge_runtime.engines.errors import EngineError
from edge_runtime.engines.holds import Role
from edge_runtime.engines.opening import TENSORRT, ModelOptions
from edge_runtime.engines.progress import BuildProgress, OnProgress, show_nothing
from edge_runtime.engines.request import TensorRtOptions, Thresholds
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.supply import never_stop
from edge_runtime.engines.wanted import MIB, EngineOptions
from edge_runtime.node.places import state_of
from edge_runtime.perception.backends.tensorrt import PluginLibrary
from edge_runtime.telemetry import get_logger

_SAY_EVERY_LINES: Final = 20


def engine_source(
    loaded: LoadedConfig,
    state: Path | None = None,
    progress: OnProgress = show_nothing,
    *,
    stop: Callable[[], bool] = never_stop,
) -> EngineSource:
    """Where engines of a configuration come from; nothing is made before one is built.

    Args:
        loaded: the configuration.
        state: of a `--state` option.
        progress: told how far a build is.
        stop: asked while an engine is waited for; True calls it off.
    """
    settings = loaded.config.engines
    return EngineSource(
        EngineStore(state_of(loaded, state).engines, quota_bytes=settings.quota_bytes),
        budget_s=settings.build_budget,
        reserve_bytes=settings.memory_reserve_mib * MIB,
        progress=progress,
        stop=stop,
    )


def let_others_go(loaded: LoadedConfig, source: EngineSource) -> None:
    """Once the models of a device's configuration are open: nobody asks for the engines of others any more.

    Others are also those that are in the configuration and do not ask for TensorRT.

    What is assigned stays: somebody may have built it for a configuration to come.

    Args:
        loaded: what the device runs.
        source: of its engines.
    """
    with contextlib.suppress(EngineError):  # a store that cannot be written keeps all
        source.store.keep_only(models_on_tensorrt(loaded), (Role.RUNNING, Role.LAST_GOOD))


def models_on_tensorrt(loaded: LoadedConfig) -> tuple[str, ...]:
    """Names of the models of a configuration that have TensorRT among their providers."""
    return tuple(name for name, model in loaded.config.models.items() if TENSORRT in model.providers)


def tensorrt_options(settings: ModelConfig, batch: int | None = None) -> TensorRtOptions:
    """How TensorRT runs a model of a configuration.

    Args:
        settings: of the model.
        batch: images in one run at most, where it takes the place of another model.
    """
    asked = settings.tensorrt
    return TensorRtOptions(
        engine=EngineOptions(
            batch=settings.batch if batch is None else batch,
            tf32=asked.tf32,
            workspace_bytes=asked.workspace_mib * MIB,
            plugins=tuple(PluginLibrary(Path(one.path), one.sha256) for one in asked.plugins),
        ),
        prepare=asked.prepare,
        cuda_graphs=asked.cuda_graphs,
        mapped=asked.mapped,
    )


def model_options(
    settings: ModelConfig, *, threads: int, score: float, batch: int | None = None
) -> ModelOptions:
    """How a model of a configuration is to be run.

    Args:
        settings: of the model.
        threads: of one run.
        score: at which a box is decoded.
        batch: images in one run at most, where it takes the place of another model.
    """
    return ModelOptions(
        providers=settings.providers,
        require_gpu=settings.require_gpu,
        threads=threads,
        spinning=settings.spinning,
        thresholds=Thresholds(score, settings.nms_iou),
        tensorrt=tensorrt_options(settings, batch),
    )


def log_progress(note: Callable[[str], None]) -> OnProgress:
    """Says in the log, and to the guard, how far a build is.

    Args:
        note: told a word of at most 15 letters whenever a build got on.
    """
    log, last, seen = get_logger(), "", 0

    def progress(now: BuildProgress) -> None:
        nonlocal last, seen
        if now.text == last:
            return
        note("engine")
        if now.step == 0 or seen % _SAY_EVERY_LINES == 0:
            log.info("building an engine", phase=now.phase, step=now.step, steps=now.steps)
        last, seen = now.text, seen + 1

    return progress
