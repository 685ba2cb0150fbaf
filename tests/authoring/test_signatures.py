"""Head families are told apart by the shapes and values of the outputs."""

import numpy as np
import pytest

from edge_runtime.authoring.signatures import Observed, recognise_head
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.decoders import make_decoder

RNG = np.random.default_rng(7)

Outputs = dict[str, Tensor]


def scores(*shape: int) -> Tensor:
    return (RNG.random(shape) * 0.9).astype(np.float32)


def logits(*shape: int) -> Tensor:
    return RNG.normal(-2, 3, shape).astype(np.float32)


def pixels(*shape: int, side: int = 640) -> Tensor:
    """cx, cy, w, h or corners, in pixels."""
    low = RNG.random((*shape[:-1], 2)) * side
    return np.concatenate([low, low + side * 0.2], -1).astype(np.float32)


def fractions(*shape: int) -> Tensor:
    return pixels(*shape, side=1)


def joined(*parts: Tensor) -> Tensor:
    return np.concatenate(parts, -1)


def grid_boxes(*shape: int) -> Tensor:
    return RNG.normal(0, 1.5, shape).astype(np.float32)


CELLS_640 = (6400, 1600, 400)

HEADS: dict[str, tuple[Outputs, str, int | None]] = {
    "yolov5": ({"o": joined(pixels(1, 25200, 4), scores(1, 25200, 86))}, "yolov5", 85),
    "yolov5 with its raw maps": (
        {
            "o": joined(pixels(1, 25200, 4), scores(1, 25200, 8)),
            **{f"r{n}": logits(1, 3, n, n, 12) for n in (80, 40, 20)},
        },
        "yolov5",
        7,
    ),
    "yolov5 before its sigmoid": ({"o": joined(pixels(1, 25200, 4), logits(1, 25200, 6))}, "yolov5", 5),
    "yolov5 grids": ({f"r{n}": logits(1, 3, n, n, 9) for n in (20, 40, 80)}, "yolov5", 4),
    "yolov8": ({"o": joined(pixels(1, 8400, 4), scores(1, 8400, 80)).transpose(0, 2, 1)}, "yolov8", 80),
    "yolov8 of one class": (
        {"o": joined(pixels(1, 8400, 4), scores(1, 8400, 1)).transpose(0, 2, 1)},
        "yolov8",
        1,
    ),
    "yolov8 P6": ({"o": joined(pixels(1, 8500, 4), scores(1, 8500, 3)).transpose(0, 2, 1)}, "yolov8", 3),
    "yolov8 in rows": ({"o": joined(pixels(1, 8400, 4), scores(1, 8400, 80))}, "yolov8", 80),
    "yolox": ({"o": joined(grid_boxes(1, 8400, 4), scores(1, 8400, 8))}, "yolox", 7),
    "yolox decoded": ({"o": joined(pixels(1, 8400, 4), scores(1, 8400, 81))}, "yolov5", 80),
    "nanodet plus": ({"o": joined(scores(1, 8500, 11), logits(1, 8500, 32))}, "nanodet", 11),
    "nanodet pairs": (
        {f"c{n}": scores(1, n, 5) for n in CELLS_640} | {f"d{n}": logits(1, n, 32) for n in CELLS_640},
        "nanodet",
        5,
    ),
    "picodet maps": (
        {f"c{n}": scores(1, 6, n, n) for n in (80, 40, 20, 10)}
        | {f"d{n}": logits(1, 32, n, n) for n in (80, 40, 20, 10)},
        "nanodet",
        6,
    ),
    "nanodet logits": (
        {f"c{n}": logits(1, n, 5) for n in CELLS_640} | {f"d{n}": logits(1, n, 32) for n in CELLS_640},
        "nanodet",
        5,
    ),
    "fastestdet": (
        {"o": np.concatenate([scores(1, 1, 40, 40), logits(1, 4, 40, 40), scores(1, 12, 40, 40)], 1)},
        "fastestdet",
        12,
    ),
    "end to end": (
        {
            "o": joined(
                pixels(1, 300, 4), scores(1, 300, 1), RNG.integers(0, 9, (1, 300, 1)).astype(np.float32)
            )
        },
        "yolo_end2end",
        None,
    ),
    "end to end, nothing found": ({"o": np.zeros((1, 300, 6), np.float32)}, "yolo_end2end", None),
    "ssd": (
        {
            "detection_boxes": fractions(1, 100, 4),
            "detection_classes": RNG.integers(1, 90, (1, 100)).astype(np.float32),
            "detection_scores": scores(1, 100),
            "num_detections": np.array([100], np.float32),
        },
        "ssd",
        None,
    ),
    "torchvision": (
        {
            "boxes": pixels(50, 4),
            "labels": RNG.integers(1, 90, 50),
            "scores": scores(50),
        },
        "ssd",
        None,
    ),
    "detection output": ({"o": np.zeros((1, 1, 200, 7), np.float32)}, "ssd", None),
    "detr logits": ({"logits": logits(1, 300, 80), "pred_boxes": fractions(1, 300, 4)}, "detr", 80),
    "first detr": ({"logits": logits(1, 100, 92), "pred_boxes": fractions(1, 100, 4)}, "detr", 91),
    "detr of four classes": ({"logits": logits(1, 300, 4), "pred_boxes": fractions(1, 300, 4)}, "detr", 4),
    "detr in one": ({"o": joined(fractions(1, 300, 4), scores(1, 300, 5))}, "detr", 5),
    "centerface": (
        {
            "h": scores(1, 1, 160, 160),
            "s": logits(1, 2, 160, 160),
            "o": logits(1, 2, 160, 160),
            "l": logits(1, 10, 160, 160),
        },
        "centerface",
        1,
    ),
    "yunet": (
        {f"a{n}": scores(1, n, 1) for n in CELLS_640}
        | {f"b{n}": scores(1, n, 1) for n in CELLS_640}
        | {f"c{n}": logits(1, n, 4) for n in CELLS_640}
        | {f"d{n}": logits(1, n, 10) for n in CELLS_640},
        "yunet",
        1,
    ),
    "boxes beside scores": (
        {"boxes": pixels(1, 8400, 4), "scores": scores(1, 8400, 80)},
        "ultraface",
        80,
    ),
}


def softmax_pair() -> Outputs:
    background = RNG.random((1, 4420, 1))
    return {
        "scores": np.concatenate([background, 1 - background], 2).astype(np.float32),
        "boxes": fractions(1, 4420, 4),
    }


HEADS["ultraface"] = (softmax_pair(), "ultraface", 1)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_is_recognised_and_its_decoder_reads_it(name: str) -> None:
    outputs, family, classes = HEADS[name]
    match = recognise_head(Observed(outputs, (640, 640)))
    assert match.head.family == family
    assert match.classes == classes
    spec = InputSpec(name="x", height=640, width=640)
    decoder = make_decoder(match.head, spec, 91 if classes is None else classes)
    decoder.decode([outputs[name] for name in match.head.outputs], 0, 0.3)


def test_a_size_input_makes_finished_boxes_a_detr() -> None:
    outputs = {"labels": RNG.integers(0, 80, (1, 300)), "boxes": pixels(1, 300, 4), "scores": scores(1, 300)}
    match = recognise_head(Observed(outputs, (640, 640), has_size_input=True))
    assert match.head.family == "detr"
    assert match.head.outputs == ("labels", "boxes", "scores")


def test_scores_and_ids_are_told_apart_by_value_when_names_say_nothing() -> None:
    outputs = {
        "o0": RNG.integers(1, 9, (1, 100)).astype(np.float32),
        "o1": fractions(1, 100, 4),
        "o2": np.array([100.0], np.float32),
        "o3": scores(1, 100),
    }
    match = recognise_head(Observed(outputs, (300, 300)))
    assert match.head.outputs == ("o1", "o3", "o0", "o2")


def test_yunet_and_centerface_follow_names_where_they_have_any() -> None:
    outputs = {
        f"{kind}_{stride}": (scores if width == 1 else logits)(1, cells, width)
        for kind, width in (("obj", 1), ("cls", 1), ("bbox", 4), ("kps", 10))
        for stride, cells in zip((8, 16, 32), CELLS_640, strict=True)
    }
    match = recognise_head(Observed(outputs, (640, 640)))
    assert match.head.outputs[:6] == ("cls_8", "cls_16", "cls_32", "obj_8", "obj_16", "obj_32")
    maps = {
        "heat": scores(1, 1, 160, 160),
        "offset": logits(1, 2, 160, 160),
        "scale": logits(1, 2, 160, 160),
        "points": logits(1, 10, 160, 160),
    }
    assert recognise_head(Observed(maps, (640, 640))).head.outputs == ("heat", "scale", "offset", "points")


def test_a_known_class_count_decides_between_heads() -> None:
    outputs = {"o": joined(pixels(1, 8400, 4), scores(1, 8400, 10))}
    with pytest.raises(PackageError, match="say which with --family yolov5 or --family yolov8"):
        recognise_head(Observed(outputs, (640, 640)))
    assert recognise_head(Observed(outputs, (640, 640), 10)).head.family == "yolov8"
    assert recognise_head(Observed(outputs, (640, 640), 9)).head.family == "yolov5"
    assert recognise_head(Observed(outputs, (640, 640)), "yolov8").classes == 10


def test_constant_objectness_is_yolov6() -> None:
    rows = joined(pixels(1, 8400, 4), np.ones((1, 8400, 1), np.float32), scores(1, 8400, 80))
    match = recognise_head(Observed({"o": rows}, (640, 640)))
    assert (match.head.family, match.kind) == ("yolov5", "yolov8")


@pytest.mark.parametrize("name", ["yolov8", "yolov5", "end to end", "yolox decoded"])
def test_outputs_full_of_nan_are_still_recognised_by_shape(name: str) -> None:
    outputs, family, classes = HEADS[name]
    broken = {key: np.full_like(tensor, np.nan) for key, tensor in outputs.items()}
    match = recognise_head(Observed(broken, (640, 640), classes))
    assert match.head.family in (family, "yolox")


@pytest.mark.parametrize(
    "outputs",
    [
        {"y": scores(1, 1000)},
        {"y": scores(1, 3, 640, 640)},
        {"a": scores(1, 77, 4), "b": scores(1, 78, 3)},
        {f"s{n}": scores(1, n, 1) for n in (1, 2, 3)} | {f"b{n}": logits(1, n, 4) for n in (1, 2, 3)},
        {"y": np.array(1.0, np.float32)},
        {"det": logits(1, 255, 40, 40), "det2": logits(1, 255, 20, 20), "det3": logits(1, 255, 10, 10)},
    ],
)
def test_other_graphs_are_refused_in_one_sentence(outputs: Outputs) -> None:
    with pytest.raises(PackageError, match="--family") as caught:
        recognise_head(Observed(outputs, (640, 640)))
    assert "\n" not in str(caught.value)


def test_a_family_that_does_not_fit_is_refused() -> None:
    outputs = HEADS["yolov8"][0]
    with pytest.raises(PackageError, match="do not fit the family ssd"):
        recognise_head(Observed(outputs, (640, 640)), "ssd")
    with pytest.raises(PackageError, match="no head family yolov99: known are yolov5"):
        recognise_head(Observed(outputs, (640, 640)), "yolov99")
