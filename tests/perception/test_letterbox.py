"""Letterbox geometry: there and back, and against what OpenCV's resize really did."""

from typing import Any, Literal

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.letterbox import Letterbox, fit
from edge_runtime.perception.preprocess import Preprocessor

frame_sizes = st.integers(1, 8192)
model_sizes = st.integers(8, 2048)
kinds = st.tuples(st.sampled_from(["letterbox", "stretch"]), st.sampled_from(["center", "top_left"]))


def spec(height: int, width: int, **fields: Any) -> InputSpec:
    return InputSpec(name="images", height=height, width=width, **fields)


@settings(max_examples=500)
@given(source=st.tuples(frame_sizes, frame_sizes), target=st.tuples(model_sizes, model_sizes), kind=kinds)
@example(source=(1571, 3775), target=(1280, 1280), kind=("letterbox", "center"))
@example(source=(1, 8192), target=(640, 640), kind=("letterbox", "center"))
@example(source=(8192, 1), target=(8, 2048), kind=("letterbox", "top_left"))
def test_corners_there_and_back(
    source: tuple[int, int], target: tuple[int, int], kind: tuple[Literal["letterbox", "stretch"], Any]
) -> None:
    box = fit(spec(*target, resize=kind[0], anchor=kind[1]), *source)
    height, width = source
    corners = np.array([[0, 0, width, height], [width / 3, height / 7, width / 2, height * 0.9]], np.float32)
    in_model = box.to_model(corners)
    back = box.to_source(in_model)
    in_model_again = box.to_model(back)
    assert np.abs(in_model - in_model_again).max() <= 0.01
    np.testing.assert_allclose(back, corners, atol=1e-3 * max(source), rtol=0)
    # the whole frame is exactly the picture's rectangle of integers inside the input
    left, top, right, bottom = in_model[0]
    assert (round(left), round(top)) == (box.left, box.top)
    assert abs(right - (box.left + box.inner_width)) <= 0.01
    assert abs(bottom - (box.top + box.inner_height)) <= 0.01
    assert 0 <= box.left <= box.width - box.inner_width
    assert 0 <= box.top <= box.height - box.inner_height


@given(source=st.tuples(frame_sizes, frame_sizes), target=st.tuples(model_sizes, model_sizes))
@example(source=(1571, 3775), target=(1280, 1280))
def test_a_letterbox_touches_two_sides_and_keeps_the_aspect_within_a_pixel(
    source: tuple[int, int], target: tuple[int, int]
) -> None:
    box = fit(spec(*target), *source)
    assert box.inner_height == target[0] or box.inner_width == target[1]
    ratio = min(target[0] / source[0], target[1] / source[1])
    assert abs(box.inner_height - max(source[0] * ratio, 1)) <= 0.5 + 1e-9
    assert abs(box.inner_width - max(source[1] * ratio, 1)) <= 0.5 + 1e-9
    assert abs((box.height - box.inner_height) - 2 * box.top) <= 1
    assert abs((box.width - box.inner_width) - 2 * box.left) <= 1


@given(
    source=st.tuples(frame_sizes, frame_sizes),
    target=st.tuples(model_sizes, model_sizes),
    boxes=st.lists(st.tuples(*[st.floats(-1e4, 1e4, width=32)] * 4), min_size=1, max_size=5),
)
def test_boxes_come_back_inside_the_frame(
    source: tuple[int, int], target: tuple[int, int], boxes: list[tuple[float, float, float, float]]
) -> None:
    back = fit(spec(*target), *source).to_source(np.array(boxes, np.float32))
    assert back.dtype == np.float32
    assert (back >= 0).all()
    assert (back[:, [0, 2]] <= source[1]).all()
    assert (back[:, [1, 3]] <= source[0]).all()


def edges_after(preprocessor: Preprocessor, image: Any, box: Letterbox, axis: int) -> float:
    """Where a step from black to white lies in the model input, in sub-pixels, from the light it lets in."""
    out = preprocessor.allocate(1)
    preprocessor.fill(image, out, 0, None)
    plane = out[0, 0, box.top : box.top + box.inner_height, box.left : box.left + box.inner_width]
    line = plane.mean(axis=axis) / 255
    offset = box.left if axis == 0 else box.top
    return float(offset + len(line) - line.sum())


@settings(deadline=None, max_examples=80)
@given(
    source=st.tuples(st.integers(16, 700), st.integers(16, 700)),
    target=st.tuples(st.integers(32, 400), st.integers(32, 400)),
    kind=kinds,
    where=st.floats(0.1, 0.9),
)
@example(source=(1571, 3775), target=(1280, 1280), kind=("letterbox", "center"), where=0.5)
def test_an_edge_lies_where_the_resize_put_it(
    source: tuple[int, int], target: tuple[int, int], kind: tuple[Any, Any], where: float
) -> None:
    wanted = spec(*target, resize=kind[0], anchor=kind[1])
    box = fit(wanted, *source)
    assume(min(box.inner_height, box.inner_width) >= 4)
    preprocessor = Preprocessor(wanted)
    height, width = source
    column, row = max(1, int(width * where)), max(1, int(height * where))
    predicted = box.to_model(np.array([[column, row, width, height]], np.float32))[0]

    vertical = np.zeros((height, width, 3), np.uint8)
    vertical[:, column:] = 255
    horizontal = np.zeros((height, width, 3), np.uint8)
    horizontal[row:] = 255
    # Bilinear sampling without antialiasing moves an edge by up to half a model pixel when it shrinks.
    assert abs(edges_after(preprocessor, vertical, box, 0) - predicted[0]) <= 0.5 + 0.01
    assert abs(edges_after(preprocessor, horizontal, box, 1) - predicted[1]) <= 0.5 + 0.01
