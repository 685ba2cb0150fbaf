"""NV12 pictures and real frames through the preparing kernel, against OpenCV's conversion and the CPU path."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.tensorrt import kernel
from edge_runtime.sources.frame import Image
from tests.rigs import host_kernel

UNIT: dict[str, Any] = {"scale": 1 / 255}
Plane = npt.NDArray[np.uint8]


def spec(**fields: Any) -> InputSpec:
    return InputSpec(**{"name": "images", "height": 96, "width": 128, **fields})


def planes(height: int, width: int, seed: int = 0, spare: int = 0) -> tuple[Plane, Plane]:
    """Luma and chroma of a picture of noise; rows with `spare` bytes behind them."""
    random = np.random.default_rng(seed)
    pairs = (width + 1) // 2 * 2
    luma = random.integers(0, 256, (height, width + spare), dtype=np.uint8)[:, :width]
    chroma = random.integers(0, 256, ((height + 1) // 2, pairs + spare), dtype=np.uint8)[:, :pairs]
    return luma, chroma


def converted(luma: Plane, chroma: Plane) -> Image:
    """What `cv2.cvtColor` makes of it; it takes even sizes, so an odd one gains a column or row that goes again."""
    height, width = luma.shape
    even = np.pad(luma, ((0, height % 2), (0, width % 2)))
    image = cv2.cvtColor(np.vstack([even, chroma]), cv2.COLOR_YUV2BGR_NV12)
    return np.asarray(image, np.uint8)[:height, :width]


@settings(max_examples=120)
@given(
    source=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    target=st.tuples(st.integers(8, 150), st.integers(8, 150)),
    resize=st.sampled_from(["letterbox", "stretch"]),
    spare=st.integers(0, 20),
)
@example((1, 1), (8, 8), "stretch", 3)
@example((2, 2), (9, 7 + 1), "letterbox", 0)
@example((97, 131), (97, 131), "stretch", 0)
def test_nv12_is_converted_as_opencv_does(
    source: tuple[int, int],
    target: tuple[int, int],
    resize: Literal["letterbox", "stretch"],
    spare: int,
) -> None:
    luma, chroma = planes(*source, spare=spare)
    wanted = spec(height=target[0], width=target[1], resize=resize, **UNIT)
    host_kernel.assert_agrees(host_kernel.nv12(luma, chroma), converted(luma, chroma), wanted)


def test_each_luma_and_chroma_at_its_own_size_is_the_same_to_the_bit() -> None:
    luma, chroma = planes(512, 512)
    luma[:256, ::2] = np.arange(256)[:, None]
    wanted = spec(height=512, width=512, dtype="uint8", layout="nhwc", color="bgr")
    np.testing.assert_array_equal(
        host_kernel.by_the_kernel(host_kernel.nv12(luma, chroma), wanted), converted(luma, chroma)
    )


def in_floats(luma: Plane, chroma: Plane, kr: float, kb: float) -> npt.NDArray[np.float64]:
    """BGR by ITU-T H.273's formulas for 8 bits of limited range, chroma repeated."""
    y = (luma.astype(np.float64) - 16) / 219
    pairs = (chroma.reshape(chroma.shape[0], -1, 2).astype(np.float64) - 128) / 224
    u, v = np.moveaxis(pairs.repeat(2, 0).repeat(2, 1)[: luma.shape[0], : luma.shape[1]], 2, 0)
    kg = 1 - kr - kb
    red, blue = y + 2 * (1 - kr) * v, y + 2 * (1 - kb) * u
    green = (y - kr * red - kb * blue) / kg
    bgr: npt.NDArray[np.float64] = np.clip(np.stack([blue, green, red], -1) * 255, 0, 255)
    return bgr


@pytest.mark.parametrize(
    ("matrix", "kr", "kb", "most"),
    [("bt709", 0.2126, 0.0722, 0.51), ("bt601", 0.299, 0.114, 1.0)],
)
def test_the_matrices_are_those_of_the_standards(
    matrix: kernel.Matrix, kr: float, kb: float, most: float
) -> None:
    luma, chroma = planes(255, 255)
    luma = np.maximum(luma, 16)  # below black OpenCV and the kernel limit first
    wanted = spec(height=255, width=255, dtype="uint8", layout="nhwc", color="bgr")
    prepared = host_kernel.by_the_kernel(host_kernel.nv12(luma, chroma, matrix), wanted)
    assert np.abs(prepared - in_floats(luma, chroma, kr, kb)).max() <= most


@pytest.mark.parametrize("matrix", ["bt601", "bt709"])
def test_black_white_and_gray_of_limited_range(matrix: kernel.Matrix) -> None:
    wanted = spec(height=8, width=8, dtype="uint8")
    for level, expected in ((0, 0), (16, 0), (126, 128), (235, 255), (255, 255)):
        luma, chroma = np.full((8, 8), level, np.uint8), np.full((4, 8), 128, np.uint8)
        prepared = host_kernel.by_the_kernel(host_kernel.nv12(luma, chroma, matrix), wanted)
        assert (prepared == expected).all()


def frames(clip: Path, every: int, count: int) -> Iterator[av.VideoFrame]:
    with av.open(str(clip)) as container:
        yield from islice(container.decode(video=0), 0, every * count, every)


@pytest.mark.parametrize("clip", ["car-detection.mp4", "vtest.avi", "bottle-detection.mp4"])
@pytest.mark.parametrize("side", [416, 640])
def test_real_frames(media: Path, clip: str, side: int) -> None:
    seen = 0
    for frame in frames(media / clip, every=15, count=4):
        wanted = spec(height=side, width=side, **UNIT)
        image = np.asarray(frame.to_ndarray(format="bgr24"), np.uint8)
        host_kernel.assert_agrees(host_kernel.bgr(image), image, wanted)
        stacked = np.asarray(frame.to_ndarray(format="nv12"), np.uint8)
        luma, chroma = stacked[: frame.height], stacked[frame.height :]
        host_kernel.assert_agrees(host_kernel.nv12(luma, chroma), converted(luma, chroma), wanted)
        seen += 1
    assert seen == 4
