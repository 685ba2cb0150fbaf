"""Which decoder a manifest asks for, and what it may not ask for."""

from typing import Any, get_args

import numpy as np
import pytest

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import Family, HeadSpec
from edge_runtime.perception.decoders import FAMILIES, make_decoder
from tests.rigs.heads import input_spec


def test_every_family_has_its_decoder() -> None:
    assert set(FAMILIES) == set(get_args(Family))


@pytest.mark.parametrize("family", get_args(Family))
def test_no_outputs_are_refused(family: Any) -> None:
    head = HeadSpec(family=family, outputs=())
    with pytest.raises(DecodeError, match=f"^{family}: 0 outputs"):
        make_decoder(head, input_spec(), 1).decode([], 0, 0.5)


@pytest.mark.parametrize("family", get_args(Family))
def test_a_scalar_is_refused(family: Any) -> None:
    counts = {"nanodet": 6, "centerface": 4, "ultraface": 2, "yunet": 12, "ssd": 4, "detr": 3}
    outputs = [np.array(0.5, np.float32)] * counts.get(family, 1)
    head = HeadSpec(family=family, outputs=tuple(f"o{index}" for index in range(len(outputs))))
    with pytest.raises(DecodeError, match=f"^{family}: "):
        make_decoder(head, input_spec(), 1).decode(outputs, 0, 0.5)


@pytest.mark.parametrize(
    ("fields", "labels", "words"),
    [
        ({}, 0, "the label map is empty"),
        ({"first_class_id": -1}, 1, "must not be negative"),
        ({"strides": (16, 8)}, 1, "must ascend"),
        ({"strides": (8, 8)}, 1, "must ascend"),
        ({"anchors": ((1.0, 2.0, 3.0),)}, 1, "widths and heights alternating"),
        ({"anchors": ((),)}, 1, "widths and heights alternating"),
        ({"family": "yolox", "anchors": ((1.0, 2.0),)}, 1, "belong to the yolov5 family"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], labels: int, words: str) -> None:
    head = HeadSpec(**{"family": "yolov5", "outputs": ("output0",), **fields})
    with pytest.raises(DecodeError, match=words):
        make_decoder(head, input_spec(), labels)
