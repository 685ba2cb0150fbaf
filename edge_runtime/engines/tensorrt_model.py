"""A model on TensorRT: its engine out of the store or built, planned for, loaded and proved."""

import contextlib
from dataclasses import replace
from typing import Final

from edge_runtime.engines.errors import BuildRefused, EngineDamaged, EngineDisagrees, EngineError
from edge_runtime.engines.holds import Role
from edge_runtime.engines.memory import (
    MemoryPlan,
    build_terms,
    load_terms,
    side_by_side,
)
from edge_runtime.engines.proof import DISAGREES, preparation_differs, prove
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.request import TensorRtReport, TensorRtRequest
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.supply import Supply
from edge_runtime.engines.verify import StoredEngine
from edge_runtime.engines.wanted import effective_precision, wanted_recipe
from edge_runtime.packages import ModelPackage
from edge_runtime.perception.backends import Backend
from edge_runtime.perception.backends.tensorrt import EngineRefused, TensorRtBackend
from edge_runtime.perception.model import LoadedModel, load_model
from edge_runtime.perception.preprocess import Preprocessor

_OUT_OF_USE: Final = (EngineRefused, EngineDamaged)
"""What is built once more."""

IN_FLIGHT: Final = 2
"""Runs at a time: while one computes, the next is copied in."""


def open_tensorrt(request: TensorRtRequest, source: EngineSource, report: TensorRtReport) -> LoadedModel:
    """Load a package on TensorRT, proved.

    An engine that TensorRT refuses is built once more. One that answers otherwise than the package's author
    measured is not: it would only come out the same.

    Args:
        request: what is to run.
        source: of engines.
        report: is added to.

    Raises:
        BackendError: it cannot be had; the text says why.
        PackageError: manifest and graph do not describe the same model.
        MissingDependency: TensorRT is not installed.
    """
    package, store = request.package, source.store
    machine, budget = source.look()
    plugins = request.options.engine.plugins
    for library in plugins:
        # one that is not right says nothing about the engine: nothing is built or remembered
        library.verified()
    recipe = wanted_recipe(package, machine, request.options.engine)
    report.key = recipe.key
    _refuse_known(store, recipe.key)

    def before_build(wanted: EngineRecipe) -> None:
        terms = build_terms(package.weights.stat().st_size, wanted.workspace_bytes)
        MemoryPlan(f"building the engine of {request.name}", terms, budget, source.reserve_bytes).require()

    supply = Supply(store, source.budget_s, source.progress, before_build, source.build, source.stop, plugins)
    stored = supply.obtain(package.weights, recipe, report.supply)
    try:
        model = _load_proved(request, source, stored, report)
    except _OUT_OF_USE as error:
        _take_out(store, stored, error, report)
        stored = supply.obtain(package.weights, recipe, report.supply)
        model = _load_rebuilt(request, source, stored, report)
    if request.role is not None:
        _hold(store, request.name, recipe.key, request.role)
    return model


def _load_rebuilt(
    request: TensorRtRequest, source: EngineSource, stored: StoredEngine, report: TensorRtReport
) -> LoadedModel:
    """The second try is the last one."""
    try:
        return _load_proved(request, source, stored, report)
    except _OUT_OF_USE as error:
        _take_out(source.store, stored, error, report)
        raise


def _load_proved(
    request: TensorRtRequest, source: EngineSource, stored: StoredEngine, report: TensorRtReport
) -> LoadedModel:
    """Load an engine and let it answer; a process that ends meanwhile is remembered.

    Unless it only looks: then somebody is there who sees it, and may be the one that ends it.
    """
    recipe, looks = stored.manifest.recipe, request.role is None
    with contextlib.nullcontext() if looks else source.store.loading(recipe.key):
        model = load_stored(request, source, stored, report)
        try:
            prove(model, effective_precision(request.package, recipe))
            return _prepared_alike(model)
        except EngineDisagrees as error:
            model.close()
            if _ran_well(source.store, recipe.key):
                raise EngineDisagrees(
                    f"{error}; it has run a model well before, so it stays: look at the package"
                ) from error
            _take_out(source.store, stored, error, report)
            raise
        except BaseException:
            model.close()
            raise


def load_stored(
    request: TensorRtRequest, source: EngineSource, stored: StoredEngine, report: TensorRtReport
) -> LoadedModel:
    """Load an engine out of the store and run it once on an empty input; see `open_tensorrt`.

    Raises:
        DoesNotFit: there is no room for it; the text says the terms.
        EngineRefused: TensorRT does not load it.
        BackendError: it does not run.
        PackageError: manifest and graph do not describe the same model.
    """
    package, options, manifest = request.package, request.options, stored.manifest
    _, budget = source.look()  # anew: a build takes minutes
    terms = load_terms(
        manifest.recipe,
        manifest.engine_bytes,
        manifest.build.device_memory_bytes or 0,
        in_flight=IN_FLIGHT,
        shared=budget.shared,
        pictures=options.prepare == "gpu",
    )
    report.plan = MemoryPlan(f"the model {request.name}", terms, budget, source.reserve_bytes)
    report.plan.require()
    both = side_by_side(((request.name, terms), ("its successor", terms)))
    report.exchange = MemoryPlan("an exchange", both, budget, source.reserve_bytes)

    def open_backend(_package: ModelPackage) -> Backend:
        return TensorRtBackend(
            stored.engine,
            model=request.name,
            prepare=options.prepare,
            input_spec=package.manifest.input,
            in_flight=IN_FLIGHT,
            open_device=source.open_device,
            plugins=options.engine.plugins,
            cuda_graphs=options.cuda_graphs,
            mapped=options.mapped,
        )

    return load_model(
        package,
        open_backend=open_backend,
        score=request.thresholds.score,
        nms_iou=request.thresholds.nms_iou,
    )


def _prepared_alike(model: LoadedModel) -> LoadedModel:
    """The model, with pictures prepared on the CPU where the GPU prepares them otherwise."""
    why = preparation_differs(model)
    if why is None:
        return model
    backend = model.backend
    backend.facts = replace(backend.facts, preparation="cpu", note=why)
    return replace(model, preprocessor=Preprocessor(model.manifest.input))


def _take_out(store: EngineStore, stored: StoredEngine, why: Exception, report: TensorRtReport) -> None:
    report.supply.found_wrong.append(str(why))
    if not isinstance(why, EngineDamaged):  # then the store has done it already
        key, digest = stored.manifest.recipe.key, stored.manifest.engine_sha256
        store.quarantine(key, str(why), engine_sha256=digest)


def _ran_well(store: EngineStore, key: str) -> bool:
    """Whether a model runs on an engine, or did: then its package is to be doubted, and not the engine."""
    return any(hold.key == key and hold.role is not Role.ASSIGNED for hold in store.holds())


def _refuse_known(store: EngineStore, key: str) -> None:
    """An engine that gave wrong answers is not built again: it would only come out the same.

    Raises:
        BuildRefused: one of this key lies in quarantine for that.
    """
    for case in store.quarantined():
        if case.reason is not None and case.reason.key == key and case.reason.reason.startswith(DISAGREES):
            raise BuildRefused(
                f"its engine is in quarantine: {case.reason.reason}; "
                "`edge-runtime engine prune --quarantine` lets it be tried again"
            )


def _hold(store: EngineStore, name: str, key: str, role: Role) -> None:
    """Keep the engine that runs now, and the one that ran before it; a store that cannot be written keeps all."""
    with contextlib.suppress(EngineError):
        before = store.held(name, role)
        if role is Role.RUNNING and before is not None and before != key:
            store.hold(name, before, Role.LAST_GOOD)
        store.hold(name, key, role)
