"""Records golden vectors of a model on the reference scenes."""

import hashlib
from dataclasses import dataclass
from typing import Final

from edge_runtime.packages.manifest import GoldenVector, ModelManifest
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, Backend
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.detector import Postprocessor
from edge_runtime.perception.preprocess import Preprocessor, size_feeds
from edge_runtime.qualification.agreement import TOLERANCES
from edge_runtime.qualification.golden import write_inputs, write_outputs
from edge_runtime.qualification.recognition import scenes_for
from edge_runtime.qualification.scenes import Scene, reference_scenes

FOLDER: Final = "golden"
"""Inside the package."""

_VECTORS: Final = 2


@dataclass(frozen=True, slots=True)
class RecordedVector:
    """An entry of the manifest, and the two files it names."""

    vector: GoldenVector
    inputs: bytes
    outputs: bytes
    detections: Detections


def record_golden(manifest: ModelManifest, backend: Backend) -> list[RecordedVector]:
    """Run the model on two reference scenes, those in which it detects most.

    Args:
        manifest: complete but for its golden vectors.
        backend: loaded with the weights.

    Raises:
        BackendError: the graph does not run as the manifest says.
        DecodeError: its outputs do not have the head's layout.
    """
    scenes = scenes_for(manifest.labels) or list(reference_scenes())
    recorded = [_record(manifest, backend, scene) for scene in scenes]
    recorded.sort(
        key=lambda vector: -float(vector.detections.score.sum())
    )  # stable: scene order among equals
    return recorded[:_VECTORS]


def _record(manifest: ModelManifest, backend: Backend, scene: Scene) -> RecordedVector:
    preprocessor = Preprocessor(manifest.input)
    tensor = preprocessor.allocate(1)
    geometry = preprocessor.fill(scene.image, tensor, 0, None)
    feeds = {manifest.input.name: tensor, **size_feeds(manifest.input, backend.inputs, 1)}
    results = backend.infer(feeds, PROVING_TIMEOUT_S)
    detections = Postprocessor(manifest, outputs=backend.outputs)(results, 0, geometry)
    by_name = {spec.name: result for spec, result in zip(backend.outputs, results, strict=True)}
    inputs = write_inputs(scene.image, feeds)
    outputs = write_outputs({name: by_name[name] for name in manifest.head.outputs}, detections)
    vector = GoldenVector(
        name=scene.name,
        inputs=f"{FOLDER}/{scene.name}.inputs.npz",
        inputs_sha256=hashlib.sha256(inputs).hexdigest(),
        outputs=f"{FOLDER}/{scene.name}.outputs.npz",
        outputs_sha256=hashlib.sha256(outputs).hexdigest(),
        atol={name: tolerance.atol for name, tolerance in TOLERANCES.items()},
        rtol={name: tolerance.rtol for name, tolerance in TOLERANCES.items()},
    )
    return RecordedVector(vector, inputs, outputs, detections)
