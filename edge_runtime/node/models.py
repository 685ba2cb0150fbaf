"""Models of a configuration, opened, checked against what a person accepted, loaded and warmed up."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edge_runtime.config import LoadedConfig
from edge_runtime.config.governor import GovernorConfig
from edge_runtime.config.node import CameraConfig, NodeConfig
from edge_runtime.engines.opening import OpenedModel, OpeningReport, open_model
from edge_runtime.engines.source import EngineSource
from edge_runtime.node.engines import engine_source, model_options
from edge_runtime.packages import open_package, require_licence
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline import Execution, choose_execution, usable_cores


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A loaded model and how it is to be run.

    Attributes:
        score: at which its detections count, as configured or as the package says.
        variants: smaller models that take its place while the device is hot, the largest first.
        openings: what it took to open the model and each of its variants.
    """

    model: LoadedModel
    execution: Execution
    score: float
    variants: tuple[LoadedModel, ...] = ()
    openings: tuple[OpeningReport, ...] = ()

    def close(self) -> None:
        """Free all of it."""
        for model in (self.model, *self.variants):
            model.close()


def plays_every_frame(camera: CameraConfig) -> bool:
    """Whether the camera is a recording whose every frame waits to be taken."""
    return getattr(camera.source, "pacing", None) == "every_frame"


def governor_of(config: NodeConfig) -> GovernorConfig | None:
    """What the governor of a configuration may do; None where it is off, or where no device runs it."""
    if config.guard is None and config.delivery is None:
        return None
    governor = config.guarding.governor
    return governor if governor.enabled else None


def execution_of(config: NodeConfig, name: str) -> Execution:
    """How model `name` of the configuration runs on this machine."""
    cameras = [camera for camera in config.cameras.values() if camera.model == name]
    settings = config.models[name]
    return choose_execution(
        settings.mode,
        settings.threads,
        every_frame=bool(cameras) and all(plays_every_frame(camera) for camera in cameras),
        cores=usable_cores(),
    )


def lowest_score(config: NodeConfig, name: str, deployed: float) -> float:
    """The score down to which boxes are decoded: trackers match weak detections to known tracks."""
    lows = [camera.tracking.low for camera in config.cameras.values() if camera.model == name]
    return min([deployed, *lows])


def load_models(loaded: LoadedConfig, engines: EngineSource | None = None) -> Mapping[str, ReadyModel]:
    """Load every model that a camera uses, with the first of its providers that runs it.

    Args:
        loaded: the configuration; its weights must be there, nothing is fetched.
        engines: where engines come from; without it the configuration's own place.

    Raises:
        PackageError: a package does not open, or its licence was not accepted.
        BackendError: a model does not load or run as asked.
    """
    source = engines or engine_source(loaded)
    used = {camera.model for camera in loaded.config.cameras.values()}
    ready: dict[str, ReadyModel] = {}
    try:
        for name in sorted(used):
            ready[name] = _load(loaded, name, source)
    except BaseException:
        for opened in ready.values():
            opened.close()
        raise
    return ready


def _load(loaded: LoadedConfig, name: str, source: EngineSource) -> ReadyModel:
    config, settings = loaded.config, loaded.config.models[name]
    governor = governor_of(config)
    execution = execution_of(config, name)
    opened: list[OpenedModel] = []
    try:
        # one after the other: what was opened is in the list when the next one fails
        for place in (name, *(() if governor is None else governor.variants.get(name, ()))):
            opened += [open_in_place(loaded, name, place, execution, source)]
    except BaseException:
        for each in opened:
            each.model.close()
        raise
    models = [each.model for each in opened]
    deployed = models[0].manifest.thresholds.score if settings.score is None else settings.score
    limits = [model.backend.in_flight for model in models if model.backend.in_flight is not None]
    if limits and execution.mode == "throughput":  # what one GPU takes at a time has nothing to do with cores
        execution = replace(execution, workers=min(limits))
    return ReadyModel(
        models[0], execution, deployed, tuple(models[1:]), tuple(each.report for each in opened)
    )


def open_in_place(
    loaded: LoadedConfig,
    name: str,
    model: str,
    execution: Execution,
    source: EngineSource,
    *,
    holds: bool = True,
) -> OpenedModel:
    """Open a model of a configuration in the place of one that a camera uses.

    Args:
        loaded: the configuration.
        name: of the model that the camera uses.
        model: of the one to open: that one, or a variant of it.
        execution: how `name` runs.
        source: of engines.
        holds: whether the model keeps its engine from now on; not where somebody only looks.

    Raises:
        PackageError: the package does not open, or its licence was not accepted.
        BackendError: the model does not load or run as asked.
    """
    config, settings = loaded.config, loaded.config.models[model]
    package = open_package(loaded.resolve(settings.package))
    require_licence(package.manifest, settings.accept_licences, model=model)
    deployed = package.manifest.thresholds.score if settings.score is None else settings.score
    options = model_options(
        settings,
        threads=execution.threads,
        score=lowest_score(config, name, deployed),
        batch=config.models[name].batch,
    )
    return open_model(package, options, source, name=model, holds=holds)
