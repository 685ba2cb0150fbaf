"""A model package made ready to run: backend, preprocessing and postprocessing that belong together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.packages import ModelPackage
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.perception.backends import (
    PROVING_TIMEOUT_S,
    Backend,
    DevicePreparing,
    FramePreparer,
    Tensor,
    load_backend,
)
from edge_runtime.perception.detector import Postprocessor, require_agreement
from edge_runtime.perception.preprocess import Preprocessor, size_feeds


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Loaded and warmed up.

    Attributes:
        preprocessor: of the backend where it has one, else on the CPU; belongs to one thread.
        postprocessor: safe from several threads.
    """

    package: ModelPackage
    backend: Backend
    preprocessor: FramePreparer
    postprocessor: Postprocessor

    @property
    def manifest(self) -> ModelManifest:
        """The package's manifest."""
        return self.package.manifest

    def feeds(self, tensor: Tensor, frames: int) -> Mapping[str, Tensor]:
        """Input arrays by name for the first `frames` images of `tensor`."""
        spec = self.manifest.input
        return {spec.name: tensor[:frames], **size_feeds(spec, self.backend.inputs, frames)}

    def close(self) -> None:
        """Free the model."""
        self.backend.close()


def load_model(
    package: ModelPackage,
    *,
    open_backend: Callable[[ModelPackage], Backend] | None = None,
    providers: Sequence[str] = ("cpu",),
    require_gpu: bool = False,
    threads: int = 1,
    spinning: bool = False,
    score: float | None = None,
    nms_iou: float | None = None,
    first_run_s: float = PROVING_TIMEOUT_S,
) -> LoadedModel:
    """Load a package and run it once on an empty picture of its own size.

    Args:
        package: verified.
        open_backend: opens the backend instead of `load_backend`; the next four are then not looked at. The model
            owns what it returns.
        providers: as `load_backend` takes them, like the next three.
        require_gpu: refuse to run on the CPU.
        threads: intra-op threads of one run.
        spinning: let idle intra-op threads spin.
        score: instead of the package's threshold.
        nms_iou: instead of the package's.
        first_run_s: that the run on an empty picture may take.

    Raises:
        BackendError: the model does not load or run.
        PackageError: manifest and graph do not describe the same model.
        DecodeError: the head is not one that this runtime reads.
    """
    manifest = package.manifest
    spec = manifest.input
    # made first: it refuses an input that nothing can be prepared for before anything is loaded
    on_cpu = Preprocessor(spec)
    if open_backend is not None:
        backend = open_backend(package)
    else:
        backend = load_backend(
            package.weights,
            providers=providers,
            require_gpu=require_gpu,
            threads=threads,
            spinning=spinning,
        )
    try:
        require_agreement(manifest, backend.inputs)
        on_device = backend.preprocessor(spec) if isinstance(backend, DevicePreparing) else None
        preprocessor: FramePreparer = on_cpu if on_device is None else on_device
        postprocessor = Postprocessor(manifest, score, nms_iou, outputs=backend.outputs)
        model = LoadedModel(package, backend, preprocessor, postprocessor)
        tensor = preprocessor.allocate(1)
        empty = np.full((spec.height, spec.width, 3), spec.pad_value, np.uint8)
        preprocessor.fill(empty, tensor, 0, None)
        backend.infer(model.feeds(tensor, 1), first_run_s)
    except BaseException:
        backend.close()
        raise
    return model
