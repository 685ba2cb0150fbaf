"""Accuracy of a model package on a COCO-format set, measured with the parts that run on the device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from edge_runtime.authoring.average_precision import AveragePrecision, average_precision, require_evaluator
from edge_runtime.authoring.coco import CocoImage, CocoSet, match_labels
from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError, ImageError
from edge_runtime.packages.manifest import MANIFEST_NAME, AccuracyFloor, Evaluation, ModelManifest
from edge_runtime.packages.package import ModelPackage
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, Backend
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.detector import Detector
from edge_runtime.sources.frame import Image

EVALUATION_SCORE = 0.001
"""Precision over all recalls needs the uncertain detections too: the usual threshold of the COCO protocol."""

EVALUATION_NMS_IOU = 0.65
"""As YOLOX and YOLOv5 evaluate; a deployment's tighter 0.45 costs 0.4 to 0.8 points of mAP, its score
threshold far more, so a figure would not compare with a published one."""

EVALUATION_DETECTIONS = 300
"""Per image; COCO counts the best 100 of each class."""


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What was measured on what.

    Attributes:
        precision: the figures.
        images: images that were looked at.
        unreadable: file names that were left out because they are absent or damaged.
        classes: names of the scored categories.
        nonfinite: candidates that the model gave with NaN or infinite numbers.
    """

    precision: AveragePrecision
    images: int
    unreadable: tuple[str, ...]
    classes: tuple[str, ...]
    nonfinite: int

    def value(self, metric: str) -> float:
        """The figure that a manifest calls `map` or `ap50`."""
        return self.precision.mean if metric == "map" else self.precision.at_50


def evaluate_package(
    package: ModelPackage,
    backend: Backend,
    truth: CocoSet,
    images: Path,
    *,
    classes: Sequence[str] = (),
    score: float = EVALUATION_SCORE,
    nms_iou: float = EVALUATION_NMS_IOU,
    skip_unreadable: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> EvaluationReport:
    """Detect in every image of a set and compare with its ground truth.

    Args:
        package: of the model.
        backend: loaded with its weights.
        truth: ground truth.
        images: folder that the file names of `truth` are relative to.
        classes: names to score; empty scores every category that has a box.
        score: least score of a detection.
        nms_iou: suppress above this IoU, where suppression is not inside the graph.
        skip_unreadable: leave out and count images that are absent or damaged, instead of refusing the set.
        progress: called with (done, total) after each image.

    Raises:
        ConfigError: labels and categories, or images and annotations, do not belong together.
        ImageError: an image is damaged.
        MissingDependency: pycocotools is not installed.
        BackendError: the model failed.
        DecodeError: the model's outputs do not have the layout of the manifest's head.
    """
    require_evaluator()
    scored = match_labels(package.manifest.labels, truth, classes)
    absent = [image.file_name for image in truth.images if not _is_file(images / image.file_name)]
    if absent and not skip_unreadable:
        raise ConfigError(
            f"{images} lacks {len(absent)} of {len(truth.images)} annotated images, the first is {absent[0]}: "
            "name the folder that has them (`edge-runtime eval --skip-unreadable` leaves them out and counts them)"
        )
    detector = Detector(package, backend, score=score, nms_iou=nms_iou, max_detections=EVALUATION_DETECTIONS)
    found: dict[int, Detections] = {}
    unreadable: list[str] = []
    for done, image in enumerate(truth.images, start=1):
        try:
            found[image.id] = detector.detect(read_image(images, image), PROVING_TIMEOUT_S)
        except ImageError:
            if not skip_unreadable:
                raise
            unreadable.append(image.file_name)
        progress(done, len(truth.images))
    try:
        precision = average_precision(truth.annotations, found, scored)
    except ValueError as error:
        raise ConfigError(f"{images}: {error}") from error
    return EvaluationReport(
        precision,
        images=len(found),
        unreadable=tuple(unreadable),
        classes=tuple(scored.categories.values()),
        nonfinite=sum(detections.nonfinite for detections in found.values()),
    )


def read_image(folder: Path, image: CocoImage) -> Image:
    """Read an annotated image as its annotations mean it.

    COCO's boxes refer to the stored pixels, other tools' to the upright picture of a rotated photo: the size in
    the annotations decides which, and refuses an image that is neither.

    Returns:
        (H, W, 3) uint8, BGR.

    Raises:
        ImageError: the file is absent, damaged, or has another size than its annotations say.
    """
    path = folder / image.file_name
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ImageError(f"{path}: not a regular file")
        data = np.fromfile(path, np.uint8)
    except FileNotFoundError as error:
        raise ImageError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ImageError(f"{path}: cannot be read: {error.strerror}") from error
    sizes = []
    for flags in (cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION, cv2.IMREAD_COLOR):
        try:
            pixels = cv2.imdecode(data, flags) if data.size else None
        except cv2.error as error:  # a header that promises more pixels than OpenCV decodes
            raise ImageError(f"{path}: not an image that can be decoded") from error
        if pixels is None:
            raise ImageError(f"{path}: not an image that can be decoded")
        height, width = pixels.shape[:2]
        if image.width in {None, width} and image.height in {None, height}:
            return pixels  # type: ignore[return-value]
        sizes.append(f"{width}x{height}")
    raise ImageError(
        f"{path}: the picture is {sizes[0]}, its annotations are for {image.width}x{image.height}"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False


def shortfall(report: EvaluationReport, floor: AccuracyFloor | None) -> str | None:
    """One sentence where `report` is below `floor`, else None."""
    if floor is None or report.value(floor.metric) >= floor.minimum:
        return None
    return f"{floor.metric} {report.value(floor.metric):.4f} is below the floor of {floor.minimum:g}"


def record(package: ModelPackage, report: EvaluationReport, dataset: str) -> ModelManifest:
    """Write what was measured into the package's manifest, replacing an earlier measurement of the same kind.

    Args:
        package: a folder, not an archive.
        report: of `evaluate_package`.
        dataset: name of the set.

    Returns:
        The new manifest; the weights' digest in it stays, the package's own digest changes.

    Raises:
        ConfigError: the package is an archive or cannot be written.
    """
    measured = [
        Evaluation(
            dataset=dataset,
            images=report.images,
            metric=metric,
            value=round(report.value(metric), 4),
            classes=report.classes,
        )
        for metric in ("map", "ap50")
    ]
    kinds = {(entry.dataset, entry.metric, entry.classes) for entry in measured}
    kept = [
        entry
        for entry in package.manifest.evaluation
        if (entry.dataset, entry.metric, entry.classes) not in kinds
    ]
    manifest = package.manifest.model_copy(update={"evaluation": (*kept, *measured)})
    try:
        write_file(package.directory / MANIFEST_NAME, manifest.canonical_bytes())
    except OSError as error:
        raise ConfigError(f"{package.directory}: the manifest cannot be written: {error.strerror}") from error
    return manifest
