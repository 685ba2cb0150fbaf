"""Head families: from output tensors to candidate boxes.

One module per family names where its layout comes from; docs/head-families.md lists them side by side.
"""

from collections.abc import Callable

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.decoders.base import Candidates, HeadDecoder
from edge_runtime.perception.decoders.centerface import CenterFaceDecoder
from edge_runtime.perception.decoders.detr import DetrDecoder
from edge_runtime.perception.decoders.fastestdet import FastestDetDecoder
from edge_runtime.perception.decoders.nanodet import NanoDetDecoder
from edge_runtime.perception.decoders.ssd import SsdDecoder
from edge_runtime.perception.decoders.ultraface import UltraFaceDecoder
from edge_runtime.perception.decoders.yolo_end2end import YoloEnd2EndDecoder
from edge_runtime.perception.decoders.yolov5 import YoloV5Decoder, YoloV5GridDecoder
from edge_runtime.perception.decoders.yolov8 import YoloV8Decoder
from edge_runtime.perception.decoders.yolox import YoloXDecoder
from edge_runtime.perception.decoders.yunet import YuNetDecoder

__all__ = ["FAMILIES", "Candidates", "HeadDecoder", "make_decoder"]

FAMILIES: dict[str, Callable[[HeadSpec, InputSpec, int], HeadDecoder]] = {
    "yolov5": YoloV5Decoder,
    "yolov8": YoloV8Decoder,
    "yolo_end2end": YoloEnd2EndDecoder,
    "yolox": YoloXDecoder,
    "nanodet": NanoDetDecoder,
    "fastestdet": FastestDetDecoder,
    "ssd": SsdDecoder,
    "detr": DetrDecoder,
    "centerface": CenterFaceDecoder,
    "ultraface": UltraFaceDecoder,
    "yunet": YuNetDecoder,
}


def make_decoder(head: HeadSpec, spec: InputSpec, labels: int) -> HeadDecoder:
    """The decoder that reads a model's outputs.

    Args:
        head: family and parameters.
        spec: the model's input, for the sizes of its feature maps.
        labels: entries of the label map.

    Raises:
        DecodeError: the parameters contradict each other.
    """
    if labels < 1:
        raise DecodeError(f"{head.family}: the label map is empty")
    if head.first_class_id < 0:
        raise DecodeError(f"{head.family}: first_class_id {head.first_class_id} must not be negative")
    if head.strides and tuple(sorted(set(head.strides))) != head.strides:
        raise DecodeError(f"{head.family}: the strides {list(head.strides)} must ascend, finest first")
    if head.anchors:
        if head.family != "yolov5":
            raise DecodeError(f"{head.family}: anchors belong to the yolov5 family only")
        if not all(len(sizes) % 2 == 0 and sizes for sizes in head.anchors):
            raise DecodeError(f"{head.family}: anchors of a stride are widths and heights alternating")
        return YoloV5GridDecoder(head, spec, labels)
    return FAMILIES[head.family](head, spec, labels)
