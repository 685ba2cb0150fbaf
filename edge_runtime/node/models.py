"""Models of a configuration, opened, checked against what a person accepted, loaded and warmed up."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edge_runtime.config import LoadedConfig
from edge_runtime.config.governor import GovernorConfig
from edge_runtime.config.node import CameraConfig, NodeConfig
from edge_runtime.engines.opening import OpenedModel, OpeningReport, open_model
from edge_runtime.engines.source import EngineSource
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.node.engines import engine_source, model_options
from edge_runtime.node.hot_swap.at_start import Opening, openings
from edge_runtime.node.hot_swap.fitness import why_not, why_unfit
from edge_runtime.packages import ModelPackage, open_package, read_manifest, require_licence
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline import Execution, choose_execution, usable_cores
from edge_runtime.protocol.swap import GivenUp
from edge_runtime.telemetry import get_logger


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A loaded model and how it is to be run.

    Attributes:
        score: at which its detections count, as configured or as the package says.
        variants: smaller models that take its place while the device is hot, the largest first.
        openings: what it took to open the model and each of its variants.
        release: SHA-256 of the bundle that brought the model; None for the package of the configuration.
        given_up: the release that should have been opened, and was not.
    """

    model: LoadedModel
    execution: Execution
    score: float
    variants: tuple[LoadedModel, ...] = ()
    openings: tuple[OpeningReport, ...] = ()
    release: str | None = None
    given_up: GivenUp | None = None

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


def retune(config: NodeConfig, name: str, ready: ReadyModel) -> ReadyModel:
    """The same models under another configuration's thresholds; from the evaluator's thread, or before it runs.

    Args:
        config: with the same models and cameras.
        name: of the model in it.
        ready: the model, and the smaller ones in its place.
    """
    governor = governor_of(config)
    smaller = () if governor is None else governor.variants.get(name, ())
    for place, model in zip((name, *smaller), (ready.model, *ready.variants), strict=False):
        settings, thresholds = config.models[place], model.manifest.thresholds
        deployed = thresholds.score if settings.score is None else settings.score
        nms_iou = thresholds.nms_iou if settings.nms_iou is None else settings.nms_iou
        model.postprocessor.retune(lowest_score(config, name, deployed), nms_iou)
    mine = config.models[name].score
    return replace(ready, score=ready.model.manifest.thresholds.score if mine is None else mine)


def load_models(
    loaded: LoadedConfig, engines: EngineSource | None = None, updates: Path | None = None
) -> Mapping[str, ReadyModel]:
    """Load every model that a camera uses, with the first of its providers that runs it.

    Where a release was assigned to a model it is opened in place of the configured package. One that does not open
    is given up for the one before it, and at last for the configured package: the device is to see.

    Args:
        loaded: the configuration; its weights must be there, nothing is fetched.
        engines: where engines come from; without it the configuration's own place.
        updates: folder of releases; None where the device takes none.

    Raises:
        PackageError: a configured package does not open, or its licence was not accepted.
        BackendError: a configured model does not load or run as asked.
    """
    source = engines or engine_source(loaded)
    used = {camera.model for camera in loaded.config.cameras.values()}
    ready: dict[str, ReadyModel] = {}
    try:
        for name in sorted(used):
            ready[name] = _load(loaded, name, source, updates)
    except BaseException:
        for opened in ready.values():
            opened.close()
        raise
    return ready


def _load(loaded: LoadedConfig, name: str, source: EngineSource, updates: Path | None) -> ReadyModel:
    config, settings = loaded.config, loaded.config.models[name]
    governor = governor_of(config)
    execution = execution_of(config, name)
    first, release, given_up = _open_assigned(loaded, name, execution, source, updates)
    opened = [first]
    try:
        # one after the other: what was opened is in the list when the next one fails
        for place in () if governor is None else governor.variants.get(name, ()):
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
        models[0],
        execution,
        deployed,
        tuple(models[1:]),
        tuple(each.report for each in opened),
        release,
        given_up,
    )


def _open_assigned(
    loaded: LoadedConfig, name: str, execution: Execution, source: EngineSource, updates: Path | None
) -> tuple[OpenedModel, str | None, GivenUp | None]:
    """What slots.json names, what ran before it, or what the configuration names: the first that opens."""
    given_up: GivenUp | None = None
    for opening in openings(updates, name):
        given_up = given_up or opening.given_up
        if opening.release is None or opening.files is None:
            break
        try:
            found = open_release(loaded, name, opening.files, execution, source)
        except EdgeRuntimeError as error:
            code = why_not(error)
            given_up = given_up or GivenUp(release=opening.release, code=code, text=str(error)[:300])
            _say_given_up(name, opening, str(error))
            continue
        return found, opening.release, given_up
    return open_in_place(loaded, name, name, execution, source), None, given_up


def _say_given_up(name: str, opening: Opening, why: str) -> None:
    get_logger().error("a release is not opened", model=name, release=opening.release, why=why)


def open_release(
    loaded: LoadedConfig, name: str, files: Path, execution: Execution, source: EngineSource
) -> OpenedModel:
    """Open the package of a release in the place of a configured model.

    Args:
        loaded: the configuration; its settings of the model hold for the release.
        name: of the model.
        files: folder of the release's files.
        execution: how `name` runs.
        source: of engines.

    Raises:
        UpdateRefused: it does not fit the configuration.
        PackageError: the package does not open, or its licence was not accepted.
        BackendError: the model does not load or run as asked.
    """
    why_unfit(loaded.config, name, read_manifest(files))
    package = open_package(files)
    return _open(loaded, package, name=name, model=name, execution=execution, source=source, holds=True)


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
    package = open_package(loaded.resolve(loaded.config.models[model].package))
    return _open(loaded, package, name=name, model=model, execution=execution, source=source, holds=holds)


def _open(
    loaded: LoadedConfig,
    package: ModelPackage,
    *,
    name: str,
    model: str,
    execution: Execution,
    source: EngineSource,
    holds: bool,
) -> OpenedModel:
    config, settings = loaded.config, loaded.config.models[model]
    require_licence(package.manifest, settings.accept_licences, model=model)
    deployed = package.manifest.thresholds.score if settings.score is None else settings.score
    options = model_options(
        settings,
        threads=execution.threads,
        score=lowest_score(config, name, deployed),
        batch=config.models[name].batch,
    )
    return open_model(package, options, source, name=model, holds=holds)
