"""Models opened on the double of TensorRT, with engines that are built in this process."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from edge_runtime.durable import sha256_file
from edge_runtime.engines.build import BuiltEngine, collect
from edge_runtime.engines.build_process import BuildRequest, build_here
from edge_runtime.engines.opening import ModelOptions, OpenedModel, open_model
from edge_runtime.engines.progress import OnProgress, show_nothing
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.perception.backends.tensorrt import PluginLibrary
from tests.rigs.tensorrt_double import Double

SMALL = "ultraface_rfb_320x240"
"""The quickest of the real models."""


@dataclass
class Workshop:
    """Builds in this process and counts.

    Attributes:
        keys: of the engines that were built, in order.
        caches: sizes of the timing caches that builds were given.
    """

    keys: list[str] = field(default_factory=list)
    caches: list[int] = field(default_factory=list)

    def __call__(
        self,
        weights: Path,
        recipe: EngineRecipe,
        *,
        scratch: Path,
        budget_s: float,
        timing_cache: bytes = b"",
        plugins: Sequence[PluginLibrary] = (),
        progress: OnProgress = show_nothing,
    ) -> BuiltEngine:
        """As `build_engine`, without a process of its own."""
        assert budget_s > 0
        self.keys.append(recipe.key)
        self.caches.append(len(timing_cache))
        request = BuildRequest(
            weights=weights,
            recipe=recipe,
            result=scratch / "engine",
            timing_cache=scratch / "timing",
            plugins=tuple(plugins),
            parent=1,
        )
        if timing_cache:
            request.timing_cache.write_bytes(timing_cache)
        return collect(request, build_here(request, progress))


@dataclass
class Device:
    """One device that is started again and again: its engines, and what was built.

    Attributes:
        double: of TensorRT and CUDA.
        engines: where they lie.
        workshop: builds them.
    """

    double: Double
    engines: Path
    workshop: Workshop = field(default_factory=Workshop)

    def source(self) -> EngineSource:
        """As a new process has it: nothing is remembered but what is on the disk."""
        return EngineSource(
            EngineStore(self.engines),
            open_device=self.double.open_cuda,
            build=self.workshop,
            root=self.engines.with_name("no-board"),  # not what the machine of the tests may be
        )

    def open(self, package: ModelPackage, *providers: str, name: str = "m", **options: Any) -> OpenedModel:
        """Open a model; `options` are those of `ModelOptions`."""
        wanted = replace(ModelOptions(providers or ("tensorrt", "cpu")), **options)
        return open_model(package, wanted, self.source(), name=name)

    def opens(self, package: ModelPackage, *providers: str, **options: Any) -> OpenedModel:
        """The same, closed at once."""
        opened = self.open(package, *providers, **options)
        opened.model.close()
        return opened

    def file(self, suffix: str) -> Path:
        """The one stored file with this suffix."""
        (found,) = self.engines.glob(f"*{suffix}")
        return found


def other_weights(package: Path, target: Path, factor: float = 1.5) -> Path:
    """A package of the same architecture whose first large weights are others; without golden vectors.

    Args:
        package: a package folder.
        target: the new one.
        factor: on those weights.
    """
    shutil.copytree(package, target)
    manifest = open_package(package).manifest
    path = target / manifest.weights.file
    model = onnx.load(str(path))
    held = next(one for one in model.graph.initializer if np.prod(one.dims) > 100)
    changed = numpy_helper.to_array(held) * np.float32(factor)
    held.CopyFrom(numpy_helper.from_array(changed.astype(np.float32), held.name))
    path.unlink()
    path.write_bytes(model.SerializeToString())
    digest = sha256_file(path)
    weights = manifest.weights.model_copy(update={"sha256": digest, "bytes": path.stat().st_size})
    fields = {"weights": weights, "version": f"sha256:{digest}", "golden": ()}
    (target / MANIFEST_NAME).write_bytes(manifest.model_copy(update=fields).canonical_bytes())
    return target
