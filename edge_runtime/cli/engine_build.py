"""What `edge-runtime engine build` does: each model's engine built where it is not there, loaded, and proved."""

import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.engines.holds import Role
from edge_runtime.engines.progress import BuildProgress, OnProgress
from edge_runtime.engines.request import TensorRtOptions, TensorRtReport, TensorRtRequest
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.tensorrt_model import open_tensorrt
from edge_runtime.engines.wanted import EngineOptions, wanted_recipe
from edge_runtime.errors import BackendError, ConfigError, EdgeRuntimeError, MissingDependency
from edge_runtime.node.engines import engine_source, models_on_tensorrt, tensorrt_options
from edge_runtime.node.models import governor_of
from edge_runtime.node.places import state_of
from edge_runtime.packages import ModelPackage, open_package, require_licence
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.state import StateDirectory

_CONFIGURATIONS: Final = (".yaml", ".yml", ".json")
_LINE_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """One engine that is asked for.

    Attributes:
        name: of the model.
        package: opened.
        options: how TensorRT runs it.
        role: in which the model holds the engine; None where nobody does.
    """

    name: str
    package: ModelPackage
    options: TensorRtOptions
    role: Role | None


@dataclass
class Built:
    """What came of one target.

    Attributes:
        name: of the model.
        report: how the engine was got.
        problem: why it cannot be used, a sentence; None where it can.
        seconds: that all of it took.
    """

    name: str
    report: TensorRtReport = field(default_factory=TensorRtReport)
    problem: str | None = None
    seconds: float = 0.0


def build_targets(
    target: Path, *, names: tuple[str, ...], options: EngineOptions, budget: float | None, state: Path | None
) -> list[Built]:
    """Build, load and prove.

    Args:
        target: a configuration or a package.
        names: models of the configuration; all that ask for TensorRT without one.
        options: for a package; a configuration has its own.
        budget: seconds for one build, instead of the configuration's.
        state: of the `--state` option.

    Raises:
        ConfigError: the target cannot be used as named.
        MissingDependency: TensorRT is not installed.
        EdgeRuntimeError: a package does not open.
    """
    if _is_configuration(target):
        if options.plugins:
            raise ConfigError(
                f"{target} names its plugin libraries itself: --plugin means those of a package"
            )
        loaded = load_config(target)
        targets, source = configured_targets(loaded, names), engine_source(loaded, state)
    else:
        if names:
            raise ConfigError(f"{target} is a package: --model means a model of a configuration")
        package = open_package(target)
        targets = [Target(package.manifest.name, package, TensorRtOptions(engine=options), None)]
        source = EngineSource(EngineStore(StateDirectory.find(state).engines))
    source.look()  # what is missing altogether is said once, before anything is made
    budget_s = source.budget_s if budget is None else budget
    found = []
    for each in targets:
        with shown(each.name) as progress:
            found.append(_build(each, replace(source, budget_s=budget_s, progress=progress)))
    return found


def _is_configuration(target: Path) -> bool:
    """Whether a path is a configuration; otherwise it may be a package.

    Raises:
        ConfigError: there is nothing, or something that is neither.
    """
    try:
        if not target.exists():
            raise ConfigError(f"{target}: there is no such file or folder")
        if target.is_file():
            return _is_configuration_file(target)
        if not target.is_dir():
            raise ConfigError(f"{target}: neither a file nor a folder")
        if not (target / MANIFEST_NAME).exists():
            raise ConfigError(
                f"{target}: neither a configuration nor a model package: it has no {MANIFEST_NAME}"
            )
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise ConfigError(f"{target}: cannot be read: {error.strerror}") from None
    return False


def _is_configuration_file(target: Path) -> bool:
    if target.suffix.lower() in _CONFIGURATIONS:
        return True
    if not tarfile.is_tarfile(target):
        raise ConfigError(
            f"{target}: neither a configuration ({', '.join(_CONFIGURATIONS)}) nor a model package; "
            "`edge-runtime model import` makes one of an ONNX file"
        )
    return False


def configured_targets(loaded: LoadedConfig, names: tuple[str, ...]) -> list[Target]:
    """The engines that a run of a configuration wants.

    Args:
        loaded: the configuration.
        names: models of it; all that ask for TensorRT without one.

    Raises:
        ConfigError: there is nothing to build, or no such model.
        PackageError: a package does not open, or its licence was not accepted.
    """
    models = loaded.config.models
    if unknown := [name for name in names if name not in models]:
        raise ConfigError(f"there is no model named {unknown[0]}; models are {', '.join(sorted(models))}")
    wanted = names or models_on_tensorrt(loaded)
    if not wanted:
        raise ConfigError(f"{loaded.path}: no model has tensorrt among its providers: nothing is to be built")
    targets = []
    for name in wanted:
        package = open_package(loaded.resolve(models[name].package))
        require_licence(package.manifest, models[name].accept_licences, model=name)
        targets += [
            Target(name, package, tensorrt_options(models[name], batch), Role.ASSIGNED)
            for batch in _batches(loaded, name)
        ]
    return targets


def _batches(loaded: LoadedConfig, name: str) -> list[int]:
    """Images in one run of a model: its own, and those of each model whose place it takes on hot days."""
    config = loaded.config
    used = {camera.model for camera in config.cameras.values()}
    governor = governor_of(config)
    variants = {} if governor is None else governor.variants
    places = [place for place in sorted(used) if name in (place, *variants.get(place, ()))]
    return sorted({config.models[place].batch for place in places or [name]})


def _build(target: Target, source: EngineSource) -> Built:
    built = Built(target.name)
    began = time.monotonic()
    try:
        machine, _ = source.look()
        source.store.failures.forget(wanted_recipe(target.package, machine, target.options.engine).key)
        request = TensorRtRequest(target.package, target.name, target.options, role=target.role)
        open_tensorrt(request, source, built.report).close()
    except MissingDependency:
        raise
    except EdgeRuntimeError as error:
        built.problem = str(error)
    built.seconds = time.monotonic() - began
    return built


def built_record(built: Built) -> dict[str, Any]:
    """What came of a target as plain data."""
    supply, plan = built.report.supply, built.report.plan
    return {
        "model": built.name,
        "key": built.report.key or None,
        "built": supply.built,
        "build_s": round(supply.seconds, 3),
        "taken_out_of_use": supply.found_wrong,
        "memory": None if plan is None else {term.name: term.nbytes for term in plan.terms},
        "seconds": round(built.seconds, 3),
        "problem": built.problem,
        "warnings": list(built.report.warnings),
    }


def say_built(built: Built, *, quiet: bool) -> None:
    """What came of a target, for people: problems on stderr."""
    for reason in built.report.supply.found_wrong:
        _complain(f"{built.name}: taken out of use: {reason}")
    for text in built.report.warnings:
        _complain(f"warning: {built.name}: {text}")
    if built.problem is not None:
        _complain(f"error: {built.name}: {built.problem}")
    elif not quiet:
        supply = built.report.supply
        how = f"built in {supply.seconds:.1f} s" if supply.built else "was there already"
        sys.stdout.write(f"{built.name}: engine {built.report.key[:12]} {how}, loaded and proved\n")


def _complain(text: str) -> None:
    """A line on stderr; names out of a model's graph stand in it, and must not drive the terminal."""
    sys.stderr.write("".join(sign if sign.isprintable() else "?" for sign in text) + "\n")


@dataclass(frozen=True, slots=True)
class Needed:
    """What a configuration needs of a store.

    Attributes:
        state: the directory where its engines lie.
        keys: of the engines that its models want on this machine.
        models: names of its models that ask for TensorRT.
    """

    state: Path
    keys: tuple[str, ...]
    models: tuple[str, ...]


def needed_by(config: Path, state: Path | None) -> Needed:
    """What a configuration needs of the store that it uses.

    Args:
        config: its file.
        state: of the `--state` option.

    Raises:
        BackendError: this machine cannot say what its models want; nothing should be removed then.
    """
    loaded = load_config(config)
    place, models = state_of(loaded, state).path, models_on_tensorrt(loaded)
    if not models:
        return Needed(place, (), ())
    try:
        machine, _ = engine_source(loaded, state).look()
    except (BackendError, MissingDependency) as error:
        raise BackendError(f"which engines {config} needs cannot be said: {error}") from error
    keys = tuple(
        wanted_recipe(target.package, machine, target.options.engine).key
        for target in configured_targets(loaded, ())
    )
    return Needed(place, keys, models)


@contextmanager
def shown(name: str) -> Iterator[OnProgress]:
    """Progress on stderr: one line that is renewed on a terminal, else a line now and then.

    Args:
        name: of the model.
    """
    if sys.stderr.isatty():
        yield lambda now: _renew(f"{name}: {now.text}")
        _renew("")
        return
    last, said_s = "", 0.0

    def progress(now: BuildProgress) -> None:
        nonlocal last, said_s
        moment = time.monotonic()
        if (now.phase != last and not now.parent) or moment - said_s >= _LINE_EVERY_S:
            last, said_s = now.phase, moment
            sys.stderr.write(f"{name}: {now.text}\n")
            sys.stderr.flush()

    yield progress


def _renew(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text[:120]}")
    sys.stderr.flush()
