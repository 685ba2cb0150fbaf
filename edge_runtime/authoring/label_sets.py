"""Class names that many published models share."""

from typing import Final

COCO: Final = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow",
    "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee",
    "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard",
    "tennis racket", "bottle", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple",
    "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch",
    "potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard",
    "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase", "scissors",
    "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
"""The 80 classes of COCO detection, in the order of their category ids."""

_UNUSED_COCO_IDS: Final = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})

VOC: Final = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""The 20 classes of Pascal VOC, in their usual order."""


def coco_by_category_id() -> tuple[str, ...]:
    """Names of the category ids 1 to 90; ids that COCO never used are `unused-12` and so on."""
    names = iter(COCO)
    return tuple(f"unused-{number}" if number in _UNUSED_COCO_IDS else next(names) for number in range(1, 91))
