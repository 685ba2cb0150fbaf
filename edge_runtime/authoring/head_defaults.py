"""Thresholds that models of a family are usually run with; a configuration may set others per camera."""

from typing import Final

from edge_runtime.packages.manifest import Thresholds

THRESHOLDS: Final[dict[str, Thresholds]] = {
    "yolov5": Thresholds(score=0.25, nms_iou=0.45),
    "yolov8": Thresholds(score=0.25, nms_iou=0.7),
    "yolo_end2end": Thresholds(score=0.25),
    "yolox": Thresholds(score=0.25, nms_iou=0.45),
    "nanodet": Thresholds(score=0.35, nms_iou=0.6),
    "fastestdet": Thresholds(score=0.65, nms_iou=0.45),
    "ssd": Thresholds(score=0.5),
    "detr": Thresholds(score=0.4),
    "centerface": Thresholds(score=0.35, nms_iou=0.3),
    "ultraface": Thresholds(score=0.7, nms_iou=0.3),
    "yunet": Thresholds(score=0.6, nms_iou=0.3),
}
"""By family, from the demo code of the repositories that the decoders name."""
