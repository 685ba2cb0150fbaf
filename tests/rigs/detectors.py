"""Manifests of the real models that lie beside the checkout, written by hand: what an importer should find."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.packages.manifest import (
    MANIFEST_NAME,
    HeadSpec,
    InputSpec,
    Licence,
    ModelManifest,
    RuntimeNeeds,
    Thresholds,
    Weights,
)
from edge_runtime.protocol import DataClass

UNIT: dict[str, Any] = {"scale": 1 / 255}
IMAGENET_BGR: dict[str, Any] = {"mean": (103.53, 116.28, 123.675), "std": (57.375, 57.12, 58.395)}
CENTRED: dict[str, Any] = {"mean": (127.0, 127.0, 127.0), "std": (128.0, 128.0, 128.0)}


def _input(name: str, height: int, width: int, **fields: Any) -> InputSpec:
    return InputSpec(name=name, height=height, width=width, **fields)


@dataclass(frozen=True)
class RealModel:
    """A file and how it is fed and read."""

    file: str
    input: InputSpec
    head: HeadSpec
    labels: tuple[str, ...] = ()
    thresholds: Thresholds = field(default_factory=lambda: Thresholds(score=0.25))

    def manifest(self, models: Path) -> ModelManifest:
        """The manifest for the weights in `models`; COCO's 80 labels where it names none."""
        content = (models / self.file).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        coco = (models / "coco80.txt").read_text(encoding="utf-8").split("\n")[:80]
        return ModelManifest(
            name=self.file.removesuffix(".onnx").replace("_", "-")[:64],
            version=f"sha256:{digest}",
            released="2026-01-15",
            task="detect",
            weights=Weights(file=self.file, sha256=digest, bytes=len(content), source="beside the checkout"),
            licence=Licence(spdx="Apache-2.0", evidence="for tests"),
            input=self.input,
            head=self.head,
            labels=self.labels or tuple(coco),
            thresholds=self.thresholds,
            quantisation="none",
            runtime=RuntimeNeeds(opset=11),
            data_classes=(DataClass.PUBLIC,),
            tokenizer="n/a",
            chat_template="n/a",
            tool_parser="n/a",
            evaluation=(),
            golden=(),
        )

    def write(self, models: Path, folder: Path) -> Path:
        """A package folder for the weights in `models`."""
        folder.mkdir(parents=True)
        (folder / self.file).symlink_to(models / self.file)
        (folder / MANIFEST_NAME).write_bytes(self.manifest(models).canonical_bytes())
        return folder


_FACE = Thresholds(score=0.6, nms_iou=0.3)

REAL_MODELS: dict[str, RealModel] = {
    "yolox_nano": RealModel(
        "yolox_nano_coco_416.onnx",
        _input("images", 416, 416, color="bgr", anchor="top_left"),
        HeadSpec(family="yolox", outputs=("output",)),
    ),
    "yolov8n": RealModel(
        "yolov8n_coco_int8_640.onnx",
        _input("images", 640, 640, **UNIT),
        HeadSpec(family="yolov8", outputs=("output0",)),
    ),
    "yolov5n": RealModel(
        "yolov5n_coco_fp16_640.onnx",
        _input("images", 640, 640, dtype="float16", **UNIT),
        HeadSpec(family="yolov5", outputs=("output0",)),
    ),
    "yolo26n": RealModel(
        "yolo26n_coco_int8_640_end2end.onnx",
        _input("images", 640, 640, **UNIT),
        HeadSpec(family="yolo_end2end", outputs=("output0",), nms="inside"),
    ),
    "nanodet": RealModel(
        "nanodet_m_coco_416.onnx",
        _input("input.1", 416, 416, color="bgr", resize="stretch", **IMAGENET_BGR),
        HeadSpec(family="nanodet", outputs=("792", "814", "836", "795", "817", "839")),
    ),
    "fastestdet": RealModel(
        "fastestdet_coco_352.onnx",
        _input("input.1", 352, 352, color="bgr", resize="stretch", **UNIT),
        HeadSpec(family="fastestdet", outputs=("758",)),
    ),
    "deimv2": RealModel(
        "deimv2_atto_coco_int8_320_damaged.onnx",
        _input("images", 320, 320, resize="stretch", size_input="orig_target_sizes", **UNIT),
        HeadSpec(family="detr", outputs=("labels", "boxes", "scores"), nms="inside"),
    ),
    "ssdlite": RealModel(
        "ssdlite_pedestrian_300_uint8_nhwc.onnx",
        _input("image_tensor:0", 300, 300, resize="stretch", dtype="uint8", layout="nhwc"),
        HeadSpec(
            family="ssd",
            outputs=(
                "detection_boxes:0",
                "detection_scores:0",
                "detection_classes:0",
                "num_detections:0",
            ),
            first_class_id=1,
            nms="inside",
        ),
        ("person",),
    ),
    "ultraface": RealModel(
        "ultraface_rfb_320x240.onnx",
        _input("input", 240, 320, resize="stretch", **CENTRED),
        HeadSpec(family="ultraface", outputs=("scores", "boxes"), first_class_id=1),
        ("face",),
        _FACE,
    ),
    "yunet": RealModel(
        "yunet_face_2026may.onnx",
        _input("input", 640, 640, color="bgr", dynamic=True, stride=32),
        HeadSpec(
            family="yunet",
            outputs=tuple(
                f"{kind}_{stride}" for kind in ("cls", "obj", "bbox", "kps") for stride in (8, 16, 32)
            ),
        ),
        ("face",),
        _FACE,
    ),
}
