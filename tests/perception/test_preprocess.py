"""Frames into tensors: against the plain formula, in every layout, dtype and geometry."""

import tracemalloc
from typing import Any, Literal

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_runtime.errors import ConfigError, ImageError, PackageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import Tensor, TensorSpec
from edge_runtime.perception.letterbox import fit
from edge_runtime.perception.preprocess import Preprocessor, size_feeds
from edge_runtime.sources.frame import Image

IMAGENET: dict[str, Any] = {"mean": (103.53, 116.28, 123.675), "std": (57.375, 57.12, 58.395)}
UNIT: dict[str, Any] = {"scale": 1 / 255}


def spec(**fields: Any) -> InputSpec:
    return InputSpec(**{"name": "images", "height": 96, "width": 128, **fields})


def picture(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def plainly(image: Image, spec: InputSpec) -> Tensor:
    """The same by the formula in float64, slowly."""
    box = fit(spec, *image.shape[:2])
    canvas = np.full((spec.height, spec.width, 3), spec.pad_value, np.uint8)
    small = cv2.resize(image, (box.inner_width, box.inner_height), interpolation=cv2.INTER_LINEAR)
    canvas[box.top : box.top + box.inner_height, box.left : box.left + box.inner_width] = small
    if spec.color == "rgb":
        canvas = canvas[..., ::-1]
    value: Tensor = (canvas.astype(np.float64) * spec.scale - np.array(spec.mean)) / np.array(spec.std)
    if spec.dtype == "uint8":
        value = np.clip(np.rint(value), 0, 255)
    if spec.layout == "nchw":
        value = value.transpose(2, 0, 1)
    return value


def assert_same(tensor: Tensor, expected: Tensor) -> None:
    tolerance = {"float32": 2e-6, "float16": 6e-4, "uint8": 0}[tensor.dtype.name]
    np.testing.assert_allclose(tensor.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "scaling", [{}, UNIT, IMAGENET, {**UNIT, "mean": (0.485, 0.456, 0.406), "std": (0.2, 0.2, 0.3)}]
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("resize", ["letterbox", "stretch"])
def test_values_follow_the_formula(
    scaling: dict[str, Any], dtype: str, layout: str, color: str, resize: str
) -> None:
    wanted = spec(dtype=dtype, layout=layout, color=color, resize=resize, **scaling)
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(2)
    image = picture(77, 51)
    preprocessor.fill(image, out, 1, None)
    assert out.dtype == dtype
    assert_same(out[1], plainly(image, wanted))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("scaling", [{}, {"scale": 0.5, "mean": (-3.0, 0.0, 3.0)}])
def test_eight_bit_inputs(layout: str, color: str, scaling: dict[str, Any]) -> None:
    wanted = spec(dtype="uint8", layout=layout, color=color, **scaling)
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(1)
    image = picture(200, 100)
    preprocessor.fill(image, out, 0, None)
    assert_same(out[0], plainly(image, wanted))


sizes = st.integers(1, 400)


@settings(deadline=None, max_examples=60)
@given(
    source=st.tuples(sizes, sizes),
    target=st.tuples(st.integers(8, 150), st.integers(8, 150)),
    anchor=st.sampled_from(["center", "top_left"]),
    layout=st.sampled_from(["nchw", "nhwc"]),
    pad_value=st.integers(0, 255),
)
@example(source=(1, 400), target=(9, 149), anchor="center", layout="nchw", pad_value=0)
def test_any_size_fits(
    source: tuple[int, int],
    target: tuple[int, int],
    anchor: Literal["center", "top_left"],
    layout: Literal["nchw", "nhwc"],
    pad_value: int,
) -> None:
    wanted = spec(
        height=target[0], width=target[1], anchor=anchor, layout=layout, pad_value=pad_value, **IMAGENET
    )
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(1)
    image = picture(*source)
    preprocessor.fill(image, out, 0, None)
    assert_same(out[0], plainly(image, wanted))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("anchor", ["center", "top_left"])
def test_another_cameras_frame_in_the_same_place_leaves_no_trace(layout: str, anchor: str) -> None:
    wanted = spec(layout=layout, anchor=anchor, **UNIT)
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(2)
    boxes = [None, None]
    for seed, size in enumerate([(100, 40), (40, 100), (96, 128), (96, 128), (300, 301), (40, 100)]):
        image = picture(*size, seed=seed)
        index = seed % 2
        boxes[index] = preprocessor.fill(image, out, index, boxes[index])  # type: ignore[call-overload]
        assert_same(out[index], plainly(image, wanted))


def test_padding_is_written_when_the_buffers_past_is_unknown() -> None:
    wanted = spec()
    preprocessor = Preprocessor(wanted)
    out = np.full((1, 3, 96, 128), np.nan, np.float32)
    image = picture(20, 100)
    preprocessor.fill(image, out, 0, None)
    assert_same(out[0], plainly(image, wanted))


def test_a_fresh_tensor_is_padding() -> None:
    for layout in ("nchw", "nhwc"):
        out = Preprocessor(spec(layout=layout, **IMAGENET)).allocate(1)
        # rgb: the means are those of the model's channels, so each channel has its own padding value
        expected = (114 - np.array(IMAGENET["mean"])) / np.array(IMAGENET["std"])
        flat = out[0].reshape(3, -1) if layout == "nchw" else out[0].reshape(-1, 3).T
        np.testing.assert_allclose(flat, np.repeat(expected[:, None], 96 * 128, 1), rtol=1e-6)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda image: image[::-1], id="upside down"),
        pytest.param(lambda image: image[:, ::-1], id="mirrored"),
        pytest.param(np.rot90, id="rotated"),
        pytest.param(lambda image: image[10:60, 20:90], id="cropped"),
        pytest.param(lambda image: image[::2, ::2], id="every second pixel"),
        pytest.param(lambda image: image[..., ::-1], id="channels reversed"),
        pytest.param(np.asfortranarray, id="column-major"),
        pytest.param(
            lambda image: np.lib.stride_tricks.as_strided(image, strides=(0, 3, 1)), id="one row repeated"
        ),
    ],
)
@pytest.mark.parametrize("same_size", [False, True])
def test_views_are_read_as_what_they_show(view: Any, same_size: bool) -> None:
    image = view(picture(96, 128))
    height, width = image.shape[:2]
    wanted = spec(height=height, width=width) if same_size else spec()
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(1)
    preprocessor.fill(image, out, 0, None)
    assert_same(out[0], plainly(np.ascontiguousarray(image), wanted))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("resize", ["letterbox", "stretch"])
def test_the_steady_state_allocates_nothing(layout: str, dtype: str, resize: str) -> None:
    wanted = spec(height=640, width=640, layout=layout, dtype=dtype, resize=resize, scale=0.5)
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(1)
    image = np.rot90(picture(576, 768))
    box = preprocessor.fill(image, out, 0, None)
    tracemalloc.start()
    try:
        for _ in range(3):
            preprocessor.fill(image, out, 0, box)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # One 8-bit plane of the input is 410 kB; numpy's own iteration buffer is 66 kB whatever the size.
    assert peak < 80_000


def test_many_frame_sizes_do_not_pile_up_buffers() -> None:
    preprocessor = Preprocessor(spec())
    out = preprocessor.allocate(1)
    for height in range(40, 90):
        image = picture(height, 128)
        preprocessor.fill(image, out, 0, None)
        assert_same(out[0], plainly(image, spec()))
    assert len(preprocessor._scratch) <= 8


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((10, 10), np.uint8), "gray"),
        (np.zeros((10, 10, 1), np.uint8), "gray"),
        (np.zeros((10, 10, 4), np.uint8), "10x10x4"),
        (np.zeros((2, 10, 10, 3), np.uint8), "2x10x10x3"),
        (np.zeros((0, 10, 3), np.uint8), "empty"),
        (np.zeros((10, 10, 3), np.float32), "float32"),
        (np.zeros((10, 10, 3), np.uint16), "uint16"),
    ],
)
def test_what_is_no_colour_picture_is_refused(image: Any, words: str) -> None:
    preprocessor = Preprocessor(spec())
    with pytest.raises(ImageError, match=words):
        preprocessor.fill(image, preprocessor.allocate(1), 0, None)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_red_arrives_where_the_model_expects_red(layout: str) -> None:
    red = np.zeros((96, 128, 3), np.uint8)
    red[..., 2] = 255  # BGR
    for color, channel in (("rgb", 0), ("bgr", 2)):
        preprocessor = Preprocessor(spec(layout=layout, color=color, **UNIT))
        out = preprocessor.allocate(1)
        preprocessor.fill(red, out, 0, None)
        means = out[0].mean((1, 2) if layout == "nchw" else (0, 1))
        assert means.tolist() == [float(index == channel) for index in range(3)]


def test_a_zero_in_std_is_refused() -> None:
    with pytest.raises(ConfigError, match="std"):
        Preprocessor(spec(std=(1.0, 0.0, 1.0)))


def test_a_size_input_is_fed_the_models_own_size() -> None:
    inputs = [
        TensorSpec("images", np.dtype(np.float32), (None, 3, 96, 128)),
        TensorSpec("orig_target_sizes", np.dtype(np.int64), (None, 2)),
    ]
    assert size_feeds(spec(), inputs, 1) == {}
    feeds = size_feeds(spec(size_input="orig_target_sizes"), inputs, 2)
    assert feeds["orig_target_sizes"].dtype == np.int64
    assert feeds["orig_target_sizes"].tolist() == [[128, 96], [128, 96]]
    with pytest.raises(PackageError, match="no input 'sizes'"):
        size_feeds(spec(size_input="sizes"), inputs, 1)
