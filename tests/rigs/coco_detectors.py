"""Two real COCO detectors ready to look at pictures, from the weights that lie beside the checkout."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.packages.manifest import (
    HeadSpec,
    InputSpec,
    Licence,
    ModelManifest,
    RuntimeNeeds,
    Thresholds,
    Weights,
)
from edge_runtime.perception.backends import load_backend
from edge_runtime.perception.detector import Detector
from edge_runtime.protocol import DataClass

FILES = {"yolox_nano": "yolox_nano_coco_416.onnx", "yolov8n": "yolov8n_coco_int8_640.onnx"}

_INPUTS = {
    "yolox_nano": InputSpec(name="images", height=416, width=416, color="bgr", anchor="top_left"),
    "yolov8n": InputSpec(name="images", height=640, width=640, color="rgb", scale=1 / 255),
}
_HEADS = {
    "yolox_nano": HeadSpec(family="yolox", outputs=("output",), strides=(8, 16, 32)),
    "yolov8n": HeadSpec(family="yolov8", outputs=("output0",)),
}


@dataclass(frozen=True, slots=True)
class Described:
    """What a detector needs to know of a package."""

    manifest: ModelManifest


def load(models: Path, name: str, *, score: float, nms_iou: float | None = None) -> Detector:
    """A detector on one CPU thread.

    Args:
        models: folder of the weights.
        name: `yolox_nano` or `yolov8n`.
        score: least score of a detection.
        nms_iou: instead of the usual 0.45.
    """
    weights = models / FILES[name]
    backend = load_backend(weights, threads=1)
    content = weights.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    manifest = ModelManifest(
        name=name.replace("_", "-"),
        version=f"sha256:{digest}",
        released="2026-01-15",
        task="detect",
        weights=Weights(file=weights.name, sha256=digest, bytes=len(content), source="beside the checkout"),
        licence=Licence(spdx="Apache-2.0" if name == "yolox_nano" else "AGPL-3.0", evidence="upstream"),
        input=_INPUTS[name].model_copy(update={"name": backend.inputs[0].name}),
        head=_HEADS[name].model_copy(update={"outputs": (backend.outputs[0].name,)}),
        labels=tuple((models / "coco80.txt").read_text(encoding="utf-8").split("\n")[:80]),
        thresholds=Thresholds(score=score),
        quantisation="none" if name == "yolox_nano" else "int8-dynamic",
        runtime=RuntimeNeeds(opset=11),
        data_classes=(DataClass.PUBLIC,),
        tokenizer="n/a",
        chat_template="n/a",
        tool_parser="n/a",
        evaluation=(),
        golden=(),
    )
    return Detector(Described(manifest), backend, score=score, nms_iou=nms_iou)
