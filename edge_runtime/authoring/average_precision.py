"""Average precision with pycocotools, the evaluator that published figures come from."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.authoring.coco import CocoBox, Scored
from edge_runtime.errors import MissingDependency
from edge_runtime.perception.detections import Detections


@dataclass(frozen=True, slots=True)
class AveragePrecision:
    """Accuracy over a set of images, each value in 0..1.

    Attributes:
        mean: averaged over IoU thresholds .50 to .95 and classes (COCO's mAP).
        at_50: averaged over classes at IoU .50.
        by_class: name → AP over the IoU thresholds, for classes that have a box.
    """

    mean: float
    at_50: float
    by_class: dict[str, float]


def require_evaluator() -> None:
    """Say so before any image is looked at.

    Raises:
        MissingDependency: pycocotools is not installed.
    """
    _evaluator()


def _evaluator() -> tuple[Any, Any]:
    try:
        from pycocotools.coco import COCO  # noqa: PLC0415 (extra `models`, not on the device)
        from pycocotools.cocoeval import COCOeval  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependency(
            "pycocotools is not installed: pip install 'edge-fleet-runtime[models]'"
        ) from error
    return COCO, COCOeval


def average_precision(
    truth: Sequence[CocoBox], found: Mapping[int, Detections], scored: Scored
) -> AveragePrecision:
    """Compare detections with the ground truth.

    Args:
        truth: boxes; those of other images or categories do not count.
        found: image id → detections, for every image that was looked at.
        scored: categories and how labels map to them.

    Raises:
        MissingDependency: pycocotools is not installed.
        ValueError: no box of the scored categories lies in these images.
    """
    coco_class, evaluator_class = _evaluator()
    boxes = [box for box in truth if box.image_id in found and box.category_id in scored.categories]
    if not any(not box.iscrowd for box in boxes):
        raise ValueError("no box of the scored categories lies in the images")
    dataset = {
        "info": {},
        "images": [{"id": number} for number in found],
        "categories": [{"id": number, "name": name} for number, name in scored.categories.items()],
    }
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        sides = []
        for annotations in (_truth(boxes), _results(found, scored)):
            side = coco_class()
            side.dataset = {**dataset, "annotations": annotations}
            side.createIndex()
            sides.append(side)
        evaluator = evaluator_class(*sides, iouType="bbox")
        evaluator.evaluate()
        evaluator.accumulate()
    # precision[iou, recall, class, area, max detections]; -1 where a class has no box
    precision = evaluator.eval["precision"][:, :, :, 0, -1]
    present = [index for index in range(precision.shape[2]) if (precision[:, :, index] > -1).any()]
    ids = list(evaluator.params.catIds)
    return AveragePrecision(
        mean=float(precision[:, :, present].mean()),
        at_50=float(precision[0][:, present].mean()),
        by_class={scored.categories[ids[index]]: float(precision[:, :, index].mean()) for index in present},
    )


def _truth(boxes: Sequence[CocoBox]) -> list[dict[str, Any]]:
    # Ids start at 1: pycocotools takes a match with id 0 for no match (cocoapi #507 and others).
    return [
        {
            "id": number,
            "image_id": box.image_id,
            "category_id": box.category_id,
            "bbox": list(box.bbox),
            "area": box.bbox[2] * box.bbox[3] if box.area is None else box.area,
            "iscrowd": box.iscrowd,
        }
        for number, box in enumerate(boxes, start=1)
    ]


def _results(found: Mapping[int, Detections], scored: Scored) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for image_id, detections in found.items():
        sizes = detections.xyxy[:, 2:] - detections.xyxy[:, :2]
        rows = np.concatenate([detections.xyxy[:, :2], sizes], 1).astype(np.float64)
        for row, score, label in zip(rows, detections.score, detections.label, strict=True):
            category = scored.category_of_label.get(int(label))
            if category is not None:
                results.append(
                    {
                        "id": len(results) + 1,
                        "image_id": image_id,
                        "category_id": category,
                        "bbox": row.tolist(),
                        "area": float(row[2] * row[3]),
                        "iscrowd": 0,
                        "score": float(score),
                    }
                )
    return results
