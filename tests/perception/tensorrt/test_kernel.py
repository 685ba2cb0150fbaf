"""The preparing kernel's arithmetic, compiled for this machine, against the CPU path that it replaces."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.tensorrt import kernel
from edge_runtime.perception.letterbox import fit
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.sources.frame import Image
from tests.rigs import host_kernel

UNIT: dict[str, Any] = {"scale": 1 / 255}
IMAGENET: dict[str, Any] = {"mean": (103.53, 116.28, 123.675), "std": (57.375, 57.12, 58.395)}
Plane = npt.NDArray[np.uint8]


def spec(**fields: Any) -> InputSpec:
    return InputSpec(**{"name": "images", "height": 96, "width": 128, **fields})


def picture(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "scaling",
    [{}, UNIT, IMAGENET, {**UNIT, "mean": (0.485, 0.456, 0.406), "std": (-0.2, 0.2, 0.3)}],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("resize", ["letterbox", "stretch"])
@pytest.mark.parametrize("anchor", ["center", "top_left"])
def test_every_kind_of_input(
    scaling: dict[str, Any], dtype: str, layout: str, color: str, resize: str, anchor: str
) -> None:
    wanted = spec(dtype=dtype, layout=layout, color=color, resize=resize, anchor=anchor, **scaling)
    for size in ((77, 51), (200, 300), (96, 128)):
        image = picture(*size)
        host_kernel.assert_agrees(host_kernel.bgr(image), image, wanted)


sizes = st.integers(1, 400)


@settings(max_examples=150)
@given(
    source=st.tuples(sizes, sizes),
    target=st.tuples(st.integers(8, 150), st.integers(8, 150)),
    anchor=st.sampled_from(["center", "top_left"]),
    resize=st.sampled_from(["letterbox", "stretch"]),
    layout=st.sampled_from(["nchw", "nhwc"]),
    dtype=st.sampled_from(["float32", "float16", "uint8"]),
    pad_value=st.integers(0, 255),
    spare=st.integers(0, 40),
)
@example((1, 400), (9, 149), "center", "letterbox", "nchw", "float32", 0, 7)
def test_any_size_and_any_pitch(
    source: tuple[int, int],
    target: tuple[int, int],
    anchor: Literal["center", "top_left"],
    resize: Literal["letterbox", "stretch"],
    layout: Literal["nchw", "nhwc"],
    dtype: Literal["float32", "float16", "uint8"],
    pad_value: int,
    spare: int,
) -> None:
    wanted = spec(
        height=target[0],
        width=target[1],
        anchor=anchor,
        resize=resize,
        layout=layout,
        dtype=dtype,
        pad_value=pad_value,
    )
    image = picture(source[0], source[1] + spare)[:, : source[1]]
    host_kernel.assert_agrees(host_kernel.bgr(image), image, wanted)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param((1, 1), (8, 8), id="one pixel"),
        pytest.param((1, 1), (97, 131), id="one pixel, much larger"),
        pytest.param((1, 500), (64, 64), id="one row"),
        pytest.param((500, 1), (64, 64), id="one column"),
        pytest.param((2, 3), (416, 416), id="six pixels"),
        pytest.param((192, 256), (96, 128), id="half, where OpenCV averages areas"),
        pytest.param((48, 64), (96, 128), id="twice"),
        pytest.param((96, 128), (96, 128), id="the same size"),
        pytest.param((95, 127), (96, 128), id="one more"),
        pytest.param((97, 129), (96, 128), id="one less"),
        pytest.param((1080, 1920), (640, 640), id="a camera's"),
        pytest.param((1079, 1917), (321, 577), id="a camera's, odd"),
        pytest.param((2160, 3840), (8, 8), id="much smaller"),
        pytest.param((8, 32_000), (8, 8192), id="wide"),
        pytest.param((32_000, 8), (8192, 8), id="tall"),
    ],
)
@pytest.mark.parametrize("resize", ["letterbox", "stretch"])
def test_sizes_at_which_resizing_goes_wrong(
    source: tuple[int, int], target: tuple[int, int], resize: str
) -> None:
    image = picture(*source)
    wanted = spec(height=target[0], width=target[1], resize=resize, dtype="uint8", layout="nhwc")
    host_kernel.assert_agrees(host_kernel.bgr(image), image, wanted)


def test_the_largest_picture_does_not_overflow() -> None:
    image = np.repeat(np.arange(65_535, dtype=np.uint16).astype(np.uint8)[None, :, None], 3, axis=2)
    wanted = spec(height=8, width=8192, resize="stretch", dtype="uint8", layout="nhwc", color="bgr")
    prepared = host_kernel.by_the_kernel(host_kernel.bgr(image), wanted)
    centres = (np.arange(8192) + 0.5) * 65_535 / 8192 - 0.5
    left = np.floor(centres).astype(np.int64)
    first, second = image[0, left, 0].astype(np.float64), image[0, left + 1, 0].astype(np.float64)
    expected = first + (second - first) * (centres - left)
    np.testing.assert_allclose(prepared, np.broadcast_to(expected[None, :, None], prepared.shape), atol=1)


GRADIENT = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
"""Every level once."""


@settings(max_examples=200)
@given(
    scale=st.floats(-1e4, 1e4, width=32) | st.floats(-(2.0**-17), 2.0**-17, width=32),
    shift=st.floats(-7e4, 7e4, width=32) | st.floats(-(2.0**-20), 2.0**-20, width=32),
)
@example(1.0, 65_280.0)  # ties on both sides of the largest half, and infinity
@example(2.0**-25, 0.0)  # ties between the smallest halves
@example(2.0**-24 / 3, -(2.0**-14))  # across the smallest normal half
@example(0.0, -0.0)
def test_halves_are_rounded_as_ieee_754_says(scale: float, shift: float) -> None:
    wanted = spec(height=16, width=16, dtype="float16", scale=scale, mean=(-shift,) * 3)
    prepared = host_kernel.by_the_kernel(host_kernel.bgr(GRADIENT), wanted)[0].reshape(-1)
    exact = np.arange(256, dtype=np.float32) * np.float32(scale) + np.float32(shift)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(prepared, exact.astype(np.float16))


@settings(max_examples=100)
@given(scale=st.floats(-4, 4, width=32), shift=st.floats(-300, 300, width=32))
@example(0.5, 0.0)
@example(1.0, 0.5)
def test_bytes_are_rounded_to_even_and_limited(scale: float, shift: float) -> None:
    wanted = spec(height=16, width=16, dtype="uint8", scale=scale, mean=(-shift,) * 3)
    prepared = host_kernel.by_the_kernel(host_kernel.bgr(GRADIENT), wanted)[0].reshape(-1)
    exact = np.arange(256, dtype=np.float32) * np.float32(scale) + np.float32(shift)
    np.testing.assert_array_equal(prepared, np.clip(np.rint(exact), 0, 255).astype(np.uint8))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_one_launch_writes_its_own_slot_and_nothing_else(layout: str, dtype: str) -> None:
    wanted = spec(height=33, width=65, layout=layout, dtype=dtype)
    image = picture(50, 20)
    for index in range(3):
        out = Preprocessor(wanted).allocate(3)
        out[:] = 77
        host_kernel.prepare(host_kernel.bgr(image), wanted, out, index)
        others = [other for other in range(3) if other != index]
        assert (out[others] == 77).all()
        assert (
            host_kernel.levels_apart(out[index], host_kernel.on_the_cpu(image, wanted), wanted).max() <= 1.001
        )


def test_what_lies_around_a_picture_is_not_read() -> None:
    wanted = spec(dtype="uint8")
    answers = []
    for filler in (0, 255):
        memory = np.full((40, 60, 3), filler, np.uint8)
        memory[5:30, 10:41] = picture(25, 31)
        answers.append(host_kernel.by_the_kernel(host_kernel.bgr(memory[5:30, 10:41]), wanted))
    np.testing.assert_array_equal(answers[0], answers[1])


@pytest.mark.parametrize("size", [(8, 8), (33, 65), (640, 640), (8192, 8), (320, 577)])
def test_a_launch_gives_each_pixel_a_thread_and_few_are_idle(size: tuple[int, int]) -> None:
    wanted = spec(height=size[0], width=size[1])
    grid, block = kernel.launch_shape(wanted)
    assert grid[2] == block[2] == 1
    for have, need, one in ((0, wanted.width, block[0]), (1, wanted.height, block[1])):
        assert need <= grid[have] * block[have] < need + one


def test_a_thread_that_a_launch_lacks_leaves_its_pixel_as_it_was() -> None:
    """The host form obeys the shape it is given; otherwise a wrong shape could not be found without a GPU."""
    wanted, image = spec(dtype="uint8"), picture(96, 128)
    out = np.full((3, 96, 128), 7, np.uint8)
    box = fit(wanted, 96, 128)
    arguments = kernel.arguments(wanted, box, host_kernel.bgr(image), out.ctypes.data)
    library = host_kernel.host_library(kernel.SOURCE)
    host_kernel.launch(library, "prepare_bgr", (3, 12, 1), (32, 8, 1), arguments)
    assert (out[:, :, 96:] == 7).all()
    np.testing.assert_array_equal(out[:, :, :96], host_kernel.on_the_cpu(image, wanted)[:, :, :96])
    # Without a shape the whole input is covered.
    library.prepare_bgr(*arguments)
    np.testing.assert_array_equal(out, host_kernel.on_the_cpu(image, wanted))


def test_the_host_form_says_why_a_source_does_not_compile() -> None:
    with pytest.raises(RuntimeError, match="does not compile for the host"):
        host_kernel.host_library(kernel.SOURCE.replace("struct Pixel {", "struct Pixel (", 1))


def test_the_functions_are_those_of_the_source() -> None:
    library = host_kernel.host_library(kernel.SOURCE)
    for function in kernel.FUNCTIONS:
        assert callable(getattr(library, function))
    with pytest.raises(AttributeError):
        library.prepare_gray  # noqa: B018
