"""What `edge-runtime engine verify` does: bytes against what was written, then TensorRT, then golden vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.engines.proof import prove
from edge_runtime.engines.request import TensorRtOptions, TensorRtReport, TensorRtRequest
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.tensorrt_model import load_stored
from edge_runtime.engines.verify import StoredEngine
from edge_runtime.engines.wanted import EngineOptions, effective_precision
from edge_runtime.errors import BackendError, EdgeRuntimeError, MissingDependency
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.perception.backends.tensorrt import PluginLibrary, PluginRefused
from edge_runtime.perception.backends.tensorrt.plugins import chosen


@dataclass(frozen=True, slots=True)
class Verified:
    """One engine.

    Attributes:
        key: its name.
        done: what was found in order, in words.
        problem: what was not, a sentence; None where all was.
    """

    key: str
    done: str
    problem: str | None = None

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {"key": self.key, "done": self.done, "problem": self.problem}


def verify_engines(
    store: EngineStore, keys: Sequence[str], packages: Sequence[Path], plugins: Sequence[PluginLibrary] = ()
) -> tuple[list[Verified], str]:
    """Verify engines; nothing is moved.

    Args:
        store: of the device.
        keys: of the engines.
        packages: whose golden vectors are compared.
        plugins: libraries that engines may need.

    Returns:
        What was found, and a sentence about what could not be done on this machine; empty where all could.

    Raises:
        PackageError: a package does not open.
    """
    opened = {package.manifest.weights.sha256: package for package in map(open_package, packages)}
    source, note = EngineSource(store), ""
    try:
        machine, _ = source.look()
    except (MissingDependency, BackendError) as error:
        machine, note = None, f"not loaded, only read and compared: {error}"
    found = []
    for key in keys:
        try:
            stored = store.verify(key)
            if stored is None:
                found.append(Verified(key, "", "it has just gone"))
                continue
            done = "read and compared"
            package = opened.get(stored.manifest.recipe.weights_sha256)
            if machine is not None and stored.manifest.recipe.machine == machine:
                done = _loaded(stored, source, package, plugins)
            elif machine is not None:
                done += f"; built for another machine: {stored.manifest.recipe.machine.gpu}"
            found.append(Verified(key, done))
        except EdgeRuntimeError as error:
            found.append(Verified(key, "", str(error)))
    return found, note


def _loaded(
    stored: StoredEngine, source: EngineSource, package: ModelPackage | None, plugins: Sequence[PluginLibrary]
) -> str:
    try:
        needed = chosen(stored.manifest.recipe.plugins, plugins)
    except PluginRefused as error:
        return f"read and compared, not loaded: {error}"
    return _load(stored, source, package, needed)


def _load(
    stored: StoredEngine,
    source: EngineSource,
    package: ModelPackage | None,
    plugins: tuple[PluginLibrary, ...],
) -> str:
    """Let TensorRT load it, and compare with golden vectors where its package is given."""
    from edge_runtime.perception.backends.tensorrt import TensorRtBackend

    if package is None:
        name = stored.manifest.recipe.key[:12]
        TensorRtBackend(stored.engine, model=name, prepare="cpu", plugins=plugins).close()
        return "read, compared and loaded"
    report = TensorRtReport()
    request = TensorRtRequest(
        package, package.manifest.name, TensorRtOptions(engine=EngineOptions(plugins=plugins))
    )
    model = load_stored(request, source, stored, report)
    try:
        prove(model, effective_precision(package, stored.manifest.recipe))
    finally:
        model.close()
    return "read, compared, loaded and proved"
