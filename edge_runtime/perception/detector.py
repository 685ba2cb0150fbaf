"""From output tensors to detections in source pixels, and a detector that does one image at a time.

`Postprocessor` is what the pipeline runs behind each inference. `Detector` is the same parts in one thread, for
evaluation, model checks and tests: what they measure is what runs.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.perception.backends.base import Backend, Tensor, TensorSpec
from edge_runtime.perception.decoders import make_decoder
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.nms import class_aware_nms
from edge_runtime.perception.preprocess import Preprocessor, size_feeds
from edge_runtime.sources.frame import Image


class HasManifest(Protocol):
    """What of a model package is needed here."""

    @property
    def manifest(self) -> ModelManifest:
        """The package's manifest."""
        ...


class Postprocessor:
    """Decodes, suppresses duplicates, and maps boxes back to the source image. Safe from several threads.

    Args:
        manifest: of the model.
        score: least score, instead of the manifest's threshold.
        nms_iou: suppress above this IoU, instead of the manifest's.
        max_detections: at most so many per image, instead of the manifest's.
        outputs: the backend's outputs, where they are not just those of the manifest in its order.

    Raises:
        DecodeError: the head's parameters contradict each other.
        PackageError: the graph lacks an output that the manifest names.
    """

    def __init__(
        self,
        manifest: ModelManifest,
        score: float | None = None,
        nms_iou: float | None = None,
        *,
        max_detections: int | None = None,
        outputs: Sequence[TensorSpec] | None = None,
    ) -> None:
        head, thresholds = manifest.head, manifest.thresholds
        self._decoder = make_decoder(head, manifest.input, len(manifest.labels))
        self._suppress = head.nms == "outside"
        self._score = thresholds.score if score is None else score
        self._nms_iou = thresholds.nms_iou if nms_iou is None else nms_iou
        self._limit = thresholds.max_detections if max_detections is None else max_detections
        given = head.outputs if outputs is None else tuple(tensor.name for tensor in outputs)
        missing = [name for name in head.outputs if name not in given]
        if missing:
            raise PackageError(
                f"{manifest.name}: the graph has no output '{missing[0]}'; it has {_listed(given)}"
            )
        self._positions = [given.index(name) for name in head.outputs]

    def retune(self, score: float, nms_iou: float) -> None:
        """Other thresholds from the next image on; from the thread that calls it with images.

        Args:
            score: least score.
            nms_iou: suppress above this IoU.
        """
        self._score, self._nms_iou = score, nms_iou

    def __call__(self, outputs: Sequence[Tensor], index: int, geometry: Letterbox) -> Detections:
        """Detections of image `index` of a batch, best first.

        Args:
            outputs: as the backend returned them.
            index: of the image in the batch.
            geometry: what the preprocessor returned for it.

        Returns:
            Boxes in source pixels, clipped to the frame. A box that lies outside, in the padding, or has no
            area is none.

        Raises:
            DecodeError: the outputs do not have the layout of the manifest's head.
        """
        found = self._decoder.decode([outputs[position] for position in self._positions], index, self._score)
        if self._suppress:
            kept = class_aware_nms(found.xyxy, found.score, found.label, self._nms_iou, self._limit)
        else:
            kept = np.argsort(-found.score, kind="stable")[: self._limit]
        xyxy = geometry.to_source(found.xyxy[kept])
        inside = (xyxy[:, 2] > xyxy[:, 0]) & (xyxy[:, 3] > xyxy[:, 1])
        detections = Detections(xyxy, found.score[kept], found.label[kept], found.nonfinite)
        return detections if inside.all() else detections.select(inside)


class Detector:
    """One image in, its detections out; belongs to one thread.

    Args:
        package: or anything else with a `manifest`.
        backend: loaded with the package's weights.
        score: as `Postprocessor` takes it.
        nms_iou: as `Postprocessor` takes it.
        max_detections: as `Postprocessor` takes it.

    Raises:
        PackageError: manifest and graph do not describe the same model.
        DecodeError: the head's parameters contradict each other.
    """

    def __init__(
        self,
        package: HasManifest,
        backend: Backend,
        *,
        score: float | None = None,
        nms_iou: float | None = None,
        max_detections: int | None = None,
    ) -> None:
        manifest = package.manifest
        require_agreement(manifest, backend.inputs)
        self._backend = backend
        self._preprocessor = Preprocessor(manifest.input)
        self._postprocessor = Postprocessor(
            manifest, score, nms_iou, max_detections=max_detections, outputs=backend.outputs
        )
        declared = next(tensor for tensor in backend.inputs if tensor.name == manifest.input.name)
        batch = declared.shape[0] if declared.shape else None
        # A graph with a fixed batch runs with that many images; the first one is looked at.
        self._tensor = self._preprocessor.allocate(batch or 1)
        self._geometry: Letterbox | None = None
        self._feeds = {
            manifest.input.name: self._tensor,
            **size_feeds(manifest.input, backend.inputs, len(self._tensor)),
        }

    def detect(self, image: Image, timeout_s: float | None = None) -> Detections:
        """Look at one image.

        Args:
            image: (H, W, 3) uint8, BGR.
            timeout_s: give the model up after this long.

        Raises:
            ImageError: the image is gray, empty or not 8-bit.
            InferenceTimeout: the model did not finish in time.
            BackendError: the model failed.
            DecodeError: its outputs do not have the layout of the manifest's head.
        """
        self._geometry = self._preprocessor.fill(image, self._tensor, 0, self._geometry)
        outputs = self._backend.infer(self._feeds, timeout_s)
        return self._postprocessor(outputs, 0, self._geometry)


def require_agreement(manifest: ModelManifest, inputs: Sequence[TensorSpec]) -> None:
    """Refuse a manifest that describes another input than the graph has.

    Raises:
        PackageError: naming both.
    """
    spec = manifest.input
    declared = {tensor.name: tensor for tensor in inputs}
    known = {spec.name, spec.size_input}
    if spec.name not in declared or not known.issuperset(declared):
        raise PackageError(
            f"{manifest.name}: the manifest feeds {_listed(name for name in known if name)}, "
            f"but the graph takes {_listed(declared)}"
        )
    tensor = declared[spec.name]
    if tensor.dtype != np.dtype(spec.dtype):
        raise PackageError(
            f"{manifest.name}: the manifest feeds {spec.dtype}, the graph takes {tensor.dtype}"
        )
    pixels = (spec.height, spec.width)
    wanted = (None, 3, *pixels) if spec.layout == "nchw" else (None, *pixels, 3)
    fits = len(tensor.shape) == 4 and all(
        mine is None or theirs is None or mine == theirs
        for mine, theirs in zip(wanted, tensor.shape, strict=True)
    )
    if not fits:
        raise PackageError(
            f"{manifest.name}: the manifest feeds {_shape(wanted)} ({spec.layout}), "
            f"the graph takes {_shape(tensor.shape)}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _shape(sizes: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in sizes)
