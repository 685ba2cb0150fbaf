"""NanoDet, NanoDet-Plus, PicoDet and FastestDet on outputs made from known objects."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends.base import Tensor
from tests.rigs.heads import (
    LABELS,
    THINGS,
    Thing,
    assert_found,
    decoder,
    grid_cells,
    input_spec,
    logit,
    spoiled,
)

SPEC = input_spec()
NANODET = HeadSpec(family="nanodet", outputs=("c8", "c16", "c32", "s8", "s16", "s32"))
FUSED = HeadSpec(family="nanodet", outputs=("output",))
FASTESTDET = HeadSpec(family="fastestdet", outputs=("758",))


def bins_for(distance: float, bins: int) -> list[float]:
    """Logits whose softmax lies on the two bins around `distance`, so that its mean is `distance`."""
    assert 0 <= distance <= bins - 1
    low = min(int(distance), bins - 2)
    part = distance - low
    logits = [-60.0] * bins
    logits[low] = math.log(max(1 - part, 1e-9))
    logits[low + 1] = math.log(max(part, 1e-9))
    return logits


def fused(
    strides: Sequence[int], offset: float, things: Sequence[tuple[Thing, int]], bins: int = 8
) -> Tensor:
    """(1, N, C + 4 x bins): each thing at the cell of a given stride that holds its centre."""
    cells = grid_cells(SPEC, strides)
    random = np.random.default_rng(4)
    rows = random.normal(0, 2, (1, len(cells), LABELS + 4 * bins)).astype(np.float32)
    rows[..., :LABELS] = random.random((1, len(cells), LABELS)) * 0.2
    for thing, stride in things:
        row, column = int(thing.cy // stride), int(thing.cx // stride)
        x, y = (column + offset) * stride, (row + offset) * stride
        x1, y1, x2, y2 = thing.xyxy
        distances = [x - x1, y - y1, x2 - x, y2 - y]
        place = cells.index((stride, row, column))
        rows[0, place, :LABELS] = 0.01
        rows[0, place, thing.label] = thing.score
        rows[0, place, LABELS:] = [
            number for distance in distances for number in bins_for(distance / stride, bins)
        ]
    return rows


PLACED = list(zip(THINGS, (8, 16, 32), strict=True))


def pairs(rows: Tensor, strides: Sequence[int]) -> list[Tensor]:
    """The same as one tensor of scores and one of sides per stride."""
    ends = np.cumsum([len(grid_cells(SPEC, (stride,))) for stride in strides])[:-1]
    scores, sides = rows[..., :LABELS], rows[..., LABELS:]
    return [*np.split(scores, ends, 1), *np.split(sides, ends, 1)]


def as_maps(tensors: Sequence[Tensor], strides: Sequence[int]) -> list[Tensor]:
    """(B, N, X) per stride → (B, X, H, W)."""
    maps = []
    for position, tensor in enumerate(tensors):
        stride = strides[position % len(strides)]
        height, width = math.ceil(SPEC.height / stride), math.ceil(SPEC.width / stride)
        maps.append(tensor.transpose(0, 2, 1).reshape(1, -1, height, width))
    return maps


def test_nanodet_pairs() -> None:
    outputs = pairs(fused((8, 16, 32), 0.5, PLACED), (8, 16, 32))
    assert_found(decoder(NANODET).decode(outputs, 0, 0.25), THINGS)
    assert_found(decoder(NANODET).decode(as_maps(outputs, (8, 16, 32)), 0, 0.25), THINGS)
    turned = [tensor.transpose(0, 2, 1) for tensor in outputs]
    assert_found(decoder(NANODET).decode(turned, 0, 0.25), THINGS)
    halves = [tensor.astype(np.float16) for tensor in outputs]
    assert_found(decoder(NANODET).decode(halves, 0, 0.25), THINGS, pixels=0.3, score=2e-3)


def test_picodet_has_four_strides_and_points_in_the_middle() -> None:
    strides = (8, 16, 32, 64)
    things = (*PLACED, (Thing(100, 40, 120, 60, label=1, score=0.6), 64))
    outputs = pairs(fused(strides, 0.5, things), strides)
    head = HeadSpec(family="nanodet", outputs=tuple("abcdefgh"))
    assert_found(decoder(head).decode(outputs, 0, 0.25), [thing for thing, _ in things])


def test_nanodet_in_one_tensor() -> None:
    rows = fused((8, 16, 32), 0.5, PLACED)
    assert_found(decoder(FUSED).decode([rows], 0, 0.25), THINGS)
    assert_found(decoder(FUSED).decode([rows.transpose(0, 2, 1)], 0, 0.25), THINGS)


def test_nanodet_plus_has_its_points_at_the_corners() -> None:
    things = [
        Thing(20, 30, 24, 40, 2, 0.9),
        Thing(100, 50, 60.5, 33, 0, 0.75),
        Thing(140, 70, 60, 60, 4, 0.5),
    ]
    rows = fused((8, 16, 32, 64), 0.0, list(zip(things, (8, 16, 32), strict=True)))
    assert_found(decoder(FUSED).decode([rows], 0, 0.25), things)
    declared = FUSED.model_copy(update={"cell_offset": 0.5})
    shifted = fused((8, 16, 32, 64), 0.5, PLACED)
    assert_found(decoder(declared).decode([shifted], 0, 0.25), THINGS)


def test_other_numbers_of_bins() -> None:
    rows = fused((8, 16, 32), 0.5, PLACED, bins=17)
    outputs = pairs(rows, (8, 16, 32))
    assert_found(decoder(NANODET).decode(outputs, 0, 0.25), THINGS)
    declared = HeadSpec(family="nanodet", outputs=("output",), reg_max=16)
    assert_found(decoder(declared).decode([rows], 0, 0.25), THINGS)
    with pytest.raises(DecodeError, match="5 classes and 4 x 8 bins"):
        decoder(FUSED).decode([rows], 0, 0.25)


def test_scores_before_the_sigmoid() -> None:
    rows = fused((8, 16, 32), 0.5, PLACED)
    scores = np.clip(rows[..., :LABELS], 1e-4, None)
    rows[..., :LABELS] = np.log(scores / (1 - scores))
    head = FUSED.model_copy(update={"activation": "sigmoid"})
    assert_found(decoder(head).decode([rows], 0, 0.25), THINGS)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("column", [0, LABELS + 9])
def test_nanodet_counts_what_is_not_finite(value: float, column: int) -> None:
    rows = fused((8, 16, 32), 0.5, PLACED)
    place = 3 * 20 + 2  # the first thing
    found = decoder(FUSED).decode(spoiled([rows], 0, (0, place, column), value), 0, 0.25)
    assert (len(found.score), found.nonfinite) == (2, 1)


def test_nanodet_outputs_that_do_not_fit() -> None:
    outputs = pairs(fused((8, 16, 32), 0.5, PLACED), (8, 16, 32))
    with pytest.raises(DecodeError, match="the label map does not fit"):
        decoder(NANODET, labels=6).decode(outputs, 0, 0.25)
    with pytest.raises(DecodeError, match="the class scores of every stride, then"):
        decoder(NANODET).decode(outputs[:5], 0, 0.25)
    with pytest.raises(DecodeError, match=r"'s8'.*does not hold 4 x bins for each of 240 cells"):
        decoder(NANODET).decode([*outputs[:3], *outputs[4:], outputs[3]], 0, 0.25)
    odd = [*outputs[:3], *(tensor[..., :-1] for tensor in outputs[3:])]
    with pytest.raises(DecodeError, match="does not hold 4 x bins"):
        decoder(NANODET).decode(odd, 0, 0.25)
    with pytest.raises(DecodeError, match="315 cells do not fit"):
        decoder(NANODET, input_spec(64, 64)).decode(outputs, 0, 0.25)


def fastestdet_map(things: Sequence[Thing] = THINGS) -> Tensor:
    random = np.random.default_rng(5)
    cube = random.normal(0, 1, (1, 5 + LABELS, 6, 10)).astype(np.float32)
    cube[:, 0] = random.random((1, 6, 10)) * 0.05
    cube[:, 5:] = random.random((1, LABELS, 6, 10)) * 0.3
    for thing in things:
        row, column = int(thing.cy // 16), int(thing.cx // 16)
        cube[0, :5, row, column] = [
            0.95,
            math.atanh(thing.cx / 16 - column),
            math.atanh(thing.cy / 16 - row),
            logit(thing.w / 160),
            logit(thing.h / 96),
        ]
        cube[0, 5:, row, column] = 0.001
        cube[0, 5 + thing.label, row, column] = (thing.score / 0.95**0.6) ** 2.5
    return cube


def test_fastestdet() -> None:
    assert_found(decoder(FASTESTDET).decode([fastestdet_map()], 0, 0.3), THINGS)
    assert_found(
        decoder(FASTESTDET).decode([fastestdet_map().astype(np.float16)], 0, 0.3),
        THINGS,
        pixels=0.3,
        score=3e-3,
    )
    batch = np.concatenate([np.zeros_like(fastestdet_map()), fastestdet_map()])
    assert len(decoder(FASTESTDET).decode([batch], 0, 0.3).score) == 0
    assert_found(decoder(FASTESTDET).decode([batch], 1, 0.3), THINGS)


def test_fastestdet_scores_at_the_threshold_are_kept() -> None:
    cube = np.zeros((1, 5 + LABELS, 6, 10), np.float32)
    cube[0, 0] = np.linspace(0.01, 1, 60, dtype=np.float32).reshape(6, 10)
    cube[0, 5] = 1
    scores = np.power(cube[0, 0], np.float32(0.6)).ravel()
    for threshold in scores[::7]:
        found = decoder(FASTESTDET).decode([cube], 0, float(threshold))
        assert len(found.score) == np.count_nonzero(scores >= threshold)


@pytest.mark.parametrize(("channel", "value"), [(0, np.nan), (7, np.nan), (1, np.nan), (0, np.inf)])
def test_fastestdet_counts_what_is_not_finite(channel: int, value: float) -> None:
    outputs = spoiled([fastestdet_map()], 0, (0, channel, 1, 1), value)
    found = decoder(FASTESTDET).decode(outputs, 0, 0.3)
    assert (len(found.score), found.nonfinite) == (2, 1)


def test_a_score_below_zero_is_quantisation() -> None:
    cube: Any = fastestdet_map()
    cube[0, 0, 0, 0] = 0.9
    cube[0, 5:, 0, 0] = -0.004
    assert decoder(FASTESTDET).decode([cube], 0, 0.3).nonfinite == 0


def test_fastestdet_with_another_label_map() -> None:
    with pytest.raises(DecodeError, match=r"must have 11 channels .* 6 classes"):
        decoder(FASTESTDET, labels=6).decode([fastestdet_map()], 0, 0.3)
