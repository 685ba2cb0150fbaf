import cv2
import numpy as np
import pytest
from av.video.frame import VideoFrame

from edge_runtime.sources.frame import Image
from edge_runtime.sources.pixels import ToBgr, rotation_of, upright

# (Kr, Kb) of ITU-R BT.601, BT.709, SMPTE 240M and BT.2020, with FFmpeg's numbers of the matrices.
MATRICES = {
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    2: (0.299, 0.114),
    1: (0.2126, 0.0722),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}


def colour_bars(height: int = 32, width: int = 64) -> Image:
    """Blocks of 8 strong colours, so that subsampled chroma is the same within each."""
    bars = np.array(
        [
            (200, 40, 40),
            (40, 200, 40),
            (40, 40, 200),
            (190, 190, 60),
            (60, 190, 190),
            (180, 60, 180),
            (90, 90, 90),
            (210, 210, 210),
        ],
        np.uint8,
    )
    return np.repeat(np.repeat(bars[None], height, axis=0), width // 8, axis=1)


def encode(image: Image, matrix: int, full: bool, bits: int, subsampled: bool, name: str) -> VideoFrame:
    """`image` as Y'CbCr by the definition of the standards, independently of FFmpeg."""
    kr, kb = MATRICES[matrix]
    blue, green, red = (image[..., channel].astype(np.float64) / 255 for channel in range(3))
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    planes = [luma, (blue - luma) / (2 * (1 - kb)), (red - luma) / (2 * (1 - kr))]
    scale = 2 ** (bits - 8)
    if full:
        coded = [planes[0] * 255 * scale, *(p * 255 * scale + 128 * scale for p in planes[1:])]
    else:
        coded = [(planes[0] * 219 + 16) * scale, *((p * 224 + 128) * scale for p in planes[1:])]
    if subsampled:
        coded[1:] = [plane[::2, ::2] for plane in coded[1:]]
    frame = VideoFrame(image.shape[1], image.shape[0], name)
    for plane, values in zip(frame.planes, coded, strict=True):
        kind = np.uint16 if bits > 8 else np.uint8
        rows = np.zeros((plane.height, plane.line_size // np.dtype(kind).itemsize), kind)
        rows[:, : values.shape[1]] = np.clip(np.rint(values), 0, 2**bits - 1).astype(kind)
        plane.update(rows.tobytes())
    frame.colorspace = matrix
    frame.color_range = 2 if full else 1
    return frame


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("name", "bits", "subsampled"),
    [("yuv420p", 8, True), ("yuv444p", 8, False), ("yuv420p10le", 10, True), ("yuv444p10le", 10, False)],
)
def test_range_and_matrix_are_honoured(
    matrix: int, full: bool, name: str, bits: int, subsampled: bool
) -> None:
    image = colour_bars()
    decoded = ToBgr()(encode(image, matrix, full, bits, subsampled, name))
    inner = [slice(8 * bar + 3, 8 * bar + 6) for bar in range(8)]  # chroma is interpolated across borders
    worst = max(np.abs(decoded[:, bar].astype(int) - image[:, bar]).max() for bar in inner)
    # swscale's rounding costs up to 3 levels; a wrong matrix or range costs 10 and more.
    assert worst <= 3


def test_the_old_names_of_full_range_formats_mean_full_range() -> None:
    image = colour_bars()
    decoded = ToBgr()(encode(image, 5, True, 8, True, "yuvj420p"))
    assert np.abs(decoded[:, 3:6].astype(int) - image[:, 3:6]).max() <= 3


def test_grey_and_rgb_formats() -> None:
    grey = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (16, 1))
    frame = VideoFrame.from_ndarray(grey, format="gray")
    frame.color_range = 2
    assert np.abs(ToBgr()(frame).astype(int) - grey[..., None]).max() <= 1
    image = colour_bars()
    for name in ("rgb24", "bgr24", "bgra", "gbrp"):
        source = VideoFrame.from_ndarray(image, format="bgr24").reformat(format=name)
        for colour_range in (0, 1, 2):
            source.color_range = colour_range
            assert np.array_equal(ToBgr()(source), image), (name, colour_range)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (427, 241), (640, 480)])
def test_pictures_are_contiguous_writable_and_our_own(size: tuple[int, int]) -> None:
    width, height = size
    convert = ToBgr()
    frame = VideoFrame.from_ndarray(np.full((height, width, 3), 77, np.uint8), format="bgr24").reformat(
        format="yuv444p"
    )
    first = convert(frame)
    assert first.shape == (height, width, 3)
    assert first.flags.c_contiguous
    assert first.flags.writeable
    first[:] = 0
    second = convert(frame)
    assert second.min() > 70
    assert not first.any()


def turned(image: Image, matrix: tuple[int, int, int, int]) -> Image:
    """By the definition: the stored point (x, y) is shown at (a x + c y, b x + d y), moved into view."""
    a, b, c, d = matrix
    rows, columns = image.shape[:2]
    y, x = np.mgrid[:rows, :columns]
    shown_x, shown_y = a * x + c * y, b * x + d * y
    shown_x, shown_y = shown_x - shown_x.min(), shown_y - shown_y.min()
    out = np.zeros((shown_y.max() + 1, shown_x.max() + 1, 3), np.uint8)
    out[shown_y, shown_x] = image
    return out


@pytest.mark.parametrize(
    "matrix",
    [
        (1, 0, 0, 1),
        (-1, 0, 0, 1),
        (1, 0, 0, -1),
        (-1, 0, 0, -1),
        (0, 1, 1, 0),
        (0, -1, 1, 0),
        (0, 1, -1, 0),
        (0, -1, -1, 0),
    ],
)
def test_all_eight_orientations(matrix: tuple[int, int, int, int]) -> None:
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    assert np.array_equal(upright(image, matrix), turned(image, matrix))
    assert upright(image, matrix).flags.c_contiguous
    assert rotation_of(matrix) in (0, 90, 180, 270)


def test_degrees_are_counter_clockwise() -> None:
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    for degrees, way in (
        (90, cv2.ROTATE_90_COUNTERCLOCKWISE),
        (180, cv2.ROTATE_180),
        (270, cv2.ROTATE_90_CLOCKWISE),
    ):
        matrix = {90: (0, -1, 1, 0), 180: (-1, 0, 0, -1), 270: (0, 1, -1, 0)}[degrees]
        assert rotation_of(matrix) == degrees
        assert np.array_equal(upright(image, matrix), cv2.rotate(image, way))
