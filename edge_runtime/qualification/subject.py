"""A loaded model under examination: shows it pictures the way the pipeline does."""

from collections.abc import Mapping

from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.packages.package import ModelPackage
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, Backend, Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.detector import Postprocessor, require_agreement
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.preprocess import Preprocessor, size_feeds
from edge_runtime.sources.frame import Image


class Subject:
    """One package on one backend.

    Args:
        package: opened.
        backend: loaded with its weights.
        timeout_s: that one run may take.

    Raises:
        PackageError: manifest and graph do not describe the same model.
        ConfigError: the manifest's input section contradicts itself.
    """

    def __init__(self, package: ModelPackage, backend: Backend, timeout_s: float = PROVING_TIMEOUT_S) -> None:
        require_agreement(package.manifest, backend.inputs)
        self.package, self.backend, self._timeout_s = package, backend, timeout_s
        self._preprocessor = Preprocessor(package.manifest.input)

    @property
    def manifest(self) -> ModelManifest:
        """The package's manifest."""
        return self.package.manifest

    def prepare(self, image: Image) -> tuple[Tensor, Letterbox]:
        """The input tensor for one picture, and where the picture lies in it."""
        tensor = self._preprocessor.allocate(1)
        return tensor, self._preprocessor.fill(image, tensor, 0, None)

    def run(self, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs by name.

        Raises:
            BackendError: the run failed.
        """
        results = self.backend.infer(feeds, self._timeout_s)
        return {spec.name: result for spec, result in zip(self.backend.outputs, results, strict=True)}

    def show(self, image: Image) -> tuple[dict[str, Tensor], Letterbox]:
        """Outputs for one picture.

        Raises:
            BackendError: the run failed.
        """
        tensor, geometry = self.prepare(image)
        spec = self.manifest.input
        return self.run({spec.name: tensor, **size_feeds(spec, self.backend.inputs, 1)}), geometry

    def read(self, outputs: Mapping[str, Tensor], geometry: Letterbox, score: float) -> Detections:
        """Detections in outputs of `run`, at a threshold of `score`.

        Raises:
            PackageError: the graph lacks an output that the manifest names.
            DecodeError: the outputs do not have the layout of the manifest's head.
        """
        postprocessor = Postprocessor(self.manifest, score, outputs=self.backend.outputs)
        return postprocessor(list(outputs.values()), 0, geometry)
