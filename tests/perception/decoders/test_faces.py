"""CenterFace, UltraFace and YuNet on outputs made from known faces."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends.base import Tensor
from tests.rigs.heads import Thing, assert_found, decoder, grid_cells, input_spec, spoiled

FACES = (
    Thing(20, 30, 24, 40, score=0.9),
    Thing(100.5, 50.25, 60, 33, score=0.75),
    Thing(140, 80, 30, 16, score=0.5),
)
CENTERFACE = HeadSpec(family="centerface", outputs=("537", "538", "539", "540"))
ULTRAFACE = HeadSpec(family="ultraface", outputs=("scores", "boxes"), first_class_id=1)
YUNET = HeadSpec(
    family="yunet", outputs=tuple(f"{kind}_{stride}" for kind in "cobk" for stride in (8, 16, 32))
)
SPEC = input_spec()


def centerface_maps(faces: Sequence[Thing] = FACES, stride: int = 4) -> list[Tensor]:
    rows, columns = 96 // stride, 160 // stride
    random = np.random.default_rng(6)
    heat = (random.random((1, 1, rows, columns)) * 0.2).astype(np.float32)
    size, offset = (random.normal(0, 1, (1, 2, rows, columns)).astype(np.float32) for _ in range(2))
    points = random.normal(0, 1, (1, 10, rows, columns)).astype(np.float32)
    for face in faces:
        row, column = int(face.cy // stride), int(face.cx // stride)
        heat[0, 0, row, column] = face.score
        size[0, :, row, column] = [math.log(face.h / stride), math.log(face.w / stride)]
        offset[0, :, row, column] = [face.cy / stride - row - 0.5, face.cx / stride - column - 0.5]
    return [heat, size, offset, points]


def test_centerface() -> None:
    maps = centerface_maps()
    assert_found(decoder(CENTERFACE, labels=1).decode(maps, 0, 0.25), FACES)
    assert_found(decoder(CENTERFACE, labels=1).decode(maps[:3], 0, 0.25), FACES)
    assert_found(decoder(CENTERFACE, labels=1).decode(centerface_maps(stride=8), 0, 0.25), FACES)
    halves = [tensor.astype(np.float16) for tensor in maps]
    assert_found(decoder(CENTERFACE, labels=1).decode(halves, 0, 0.25), FACES, pixels=0.3, score=2e-3)
    batch = [np.concatenate([tensor * 0, tensor]) for tensor in maps]
    assert len(decoder(CENTERFACE, labels=1).decode(batch, 0, 0.25).score) == 0
    assert_found(decoder(CENTERFACE, labels=1).decode(batch, 1, 0.25), FACES)


def test_a_heat_map_per_class() -> None:
    heat, size, offset, _ = centerface_maps()
    other = np.zeros_like(heat)
    found = decoder(CENTERFACE, labels=2).decode([np.concatenate([other, heat], 1), size, offset], 0, 0.25)
    assert_found(found, [Thing(f.cx, f.cy, f.w, f.h, 1, f.score) for f in FACES])


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_centerface_counts_what_is_not_finite(position: int, value: float) -> None:
    maps = spoiled(centerface_maps(), position, (0, 0, 7, 5), value)
    found = decoder(CENTERFACE, labels=1).decode(maps, 0, 0.25)
    assert (len(found.score), found.nonfinite) == (2, 1)


def test_centerface_outputs_that_do_not_fit() -> None:
    heat, size, offset, points = centerface_maps()
    with pytest.raises(DecodeError, match="the order is heat map, size, offset, landmarks"):
        decoder(CENTERFACE, labels=1).decode([size, heat, offset], 0, 0.25)
    with pytest.raises(DecodeError, match="differ in size"):
        decoder(CENTERFACE, labels=1).decode([heat, size[:, :, :3], offset], 0, 0.25)
    with pytest.raises(DecodeError, match="960 cells does not fit a 32x32 input"):
        decoder(CENTERFACE, input_spec(32, 32), labels=1).decode([heat, size, offset, points], 0, 0.25)


def ultraface_outputs(faces: Sequence[Thing] = FACES) -> list[Tensor]:
    random = np.random.default_rng(7)
    scores = np.empty((1, 50, 2), np.float32)
    scores[..., 1] = random.random((1, 50)) * 0.2
    boxes = random.random((1, 50, 4)).astype(np.float32)
    for place, face in zip((0, 20, 49), faces, strict=True):
        scores[0, place, 1] = face.score
        boxes[0, place] = np.array(face.xyxy) / [160, 96, 160, 96]
    scores[..., 0] = 1 - scores[..., 1]
    return [scores, boxes]


def test_ultraface() -> None:
    outputs = ultraface_outputs()
    assert_found(decoder(ULTRAFACE, labels=1).decode(outputs, 0, 0.25), FACES)
    logits = [np.log(outputs[0]), outputs[1]]
    activated = ULTRAFACE.model_copy(update={"activation": "softmax"})
    assert_found(decoder(activated, labels=1).decode(logits, 0, 0.25), FACES)
    halves = [tensor.astype(np.float16) for tensor in outputs]
    assert_found(decoder(ULTRAFACE, labels=1).decode(halves, 0, 0.25), FACES, pixels=0.2, score=2e-3)


def test_the_background_is_never_reported() -> None:
    plain = HeadSpec(family="ultraface", outputs=("scores", "boxes"))
    with pytest.raises(DecodeError, match="the label map does not fit"):
        decoder(plain, labels=1).decode(ultraface_outputs(), 0, 0.25)


def test_ultraface_outputs_that_do_not_fit() -> None:
    scores, boxes = ultraface_outputs()
    with pytest.raises(DecodeError, match="1 of the background and 1 classes"):
        decoder(ULTRAFACE, labels=1).decode([boxes, scores], 0, 0.25)
    with pytest.raises(DecodeError, match="50, 40 candidates"):
        decoder(ULTRAFACE, labels=1).decode([scores, boxes[:, :40]], 0, 0.25)
    assert (
        decoder(ULTRAFACE, labels=1).decode(spoiled([scores, boxes], 0, (0, 5, 1), np.nan), 0, 0.25).nonfinite
        == 1
    )


def yunet_outputs(faces: Sequence[Thing] = FACES) -> list[Tensor]:
    random = np.random.default_rng(8)
    groups: list[list[Tensor]] = [[], [], [], []]
    for face, stride in zip(faces, (8, 16, 32), strict=True):
        cells = grid_cells(SPEC, (stride,))
        row, column = int(face.cy // stride), int(face.cx // stride)
        place = cells.index((stride, row, column))
        classes = (random.random((1, len(cells), 1)) * 0.9).astype(np.float32)
        objectness = (random.random((1, len(cells), 1)) * 0.05).astype(np.float32)
        numbers = random.normal(0, 1, (1, len(cells), 4)).astype(np.float32)
        classes[0, place, 0], objectness[0, place, 0] = face.score, face.score
        numbers[0, place] = [
            face.cx / stride - column,
            face.cy / stride - row,
            math.log(face.w / stride),
            math.log(face.h / stride),
        ]
        points = random.normal(0, 1, (1, len(cells), 10)).astype(np.float32)
        for group, tensor in zip(groups, (classes, objectness, numbers, points), strict=True):
            group.append(tensor)
    return [tensor for group in groups for tensor in group]


def test_yunet() -> None:
    outputs = yunet_outputs()
    assert_found(decoder(YUNET, labels=1).decode(outputs, 0, 0.25), FACES)
    assert_found(decoder(YUNET, labels=1).decode(outputs[:9], 0, 0.25), FACES)
    turned = [*(tensor.transpose(0, 2, 1) for tensor in outputs[:6]), *outputs[6:]]
    assert_found(decoder(YUNET, labels=1).decode(turned, 0, 0.25), FACES)
    batch = [np.concatenate([tensor * 0, tensor]) for tensor in outputs]
    assert len(decoder(YUNET, labels=1).decode(batch, 0, 0.25).score) == 0
    assert_found(decoder(YUNET, labels=1).decode(batch, 1, 0.25), FACES)


def test_yunet_clamps_but_does_not_hide() -> None:
    place = (0, 3 * 20 + 2, 0)
    above = spoiled(yunet_outputs(), 0, place, 1.5)
    found = decoder(YUNET, labels=1).decode(above, 0, 0.25)
    assert found.score.max() == pytest.approx(math.sqrt(0.9), abs=1e-4)
    for position, value in ((0, np.nan), (0, np.inf), (3, np.nan), (3, np.inf), (6, np.nan)):
        found = decoder(YUNET, labels=1).decode(spoiled(yunet_outputs(), position, place, value), 0, 0.25)
        assert (len(found.score), found.nonfinite) == (2, 1), (position, value)


def test_yunet_outputs_that_do_not_fit() -> None:
    outputs = yunet_outputs()
    with pytest.raises(DecodeError, match="11 outputs, 3 of them boxes"):
        decoder(YUNET, labels=1).decode(outputs[:11], 0, 0.25)
    with pytest.raises(DecodeError, match="0 of them boxes"):
        decoder(YUNET, labels=1).decode(outputs[:6], 0, 0.25)
    with pytest.raises(DecodeError, match=r"'b_8'.*one side must be 4"):
        decoder(YUNET, labels=1).decode([*outputs[:6], *outputs[9:], *outputs[6:9]], 0, 0.25)
    with pytest.raises(DecodeError, match="315 cells do not fit"):
        decoder(YUNET, input_spec(64, 64), labels=1).decode(outputs, 0, 0.25)
