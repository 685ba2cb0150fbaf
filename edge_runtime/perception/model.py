"""A model package made ready to run: backend, preprocessing and postprocessing that belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.packages import ModelPackage
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, Backend, Tensor, load_backend
from edge_runtime.perception.detector import Postprocessor, require_agreement
from edge_runtime.perception.preprocess import Preprocessor, size_feeds


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Loaded and warmed up.

    Attributes:
        preprocessor: belongs to one thread.
        postprocessor: safe from several threads.
    """

    package: ModelPackage
    backend: Backend
    preprocessor: Preprocessor
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
    providers: Sequence[str] = ("cpu",),
    require_gpu: bool = False,
    threads: int = 1,
    spinning: bool = False,
    score: float | None = None,
    nms_iou: float | None = None,
) -> LoadedModel:
    """Load a package and run it once on an empty input of its own size.

    Args:
        package: verified.
        providers: as `load_backend` takes them, like the next three.
        require_gpu: refuse to run on the CPU.
        threads: intra-op threads of one run.
        spinning: let idle intra-op threads spin.
        score: instead of the package's threshold.
        nms_iou: instead of the package's.

    Raises:
        BackendError: the model does not load or run.
        PackageError: manifest and graph do not describe the same model.
        DecodeError: the head is not one that this runtime reads.
    """
    manifest = package.manifest
    preprocessor = Preprocessor(manifest.input)
    backend = load_backend(
        package.weights,
        providers=providers,
        require_gpu=require_gpu,
        threads=threads,
        spinning=spinning,
    )
    try:
        require_agreement(manifest, backend.inputs)
        postprocessor = Postprocessor(manifest, score, nms_iou, outputs=backend.outputs)
        model = LoadedModel(package, backend, preprocessor, postprocessor)
        tensor = preprocessor.allocate(1)
        # Loading has warmed up graphs of a fixed size, and a first run of TensorRT may take many minutes.
        deadline = None if backend.facts.effective == "tensorrt" else PROVING_TIMEOUT_S
        backend.infer(model.feeds(np.ascontiguousarray(tensor), 1), deadline)
    except BaseException:
        backend.close()
        raise
    return model
