"""Text is legible at every frame size and never larger than its place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.annotation.lettering import fit_text, paste, text_pixels, text_tile
from edge_runtime.annotation.palette import BLACK, WHITE, readable_on


@pytest.mark.parametrize(("height", "width", "pixels"), [(144, 176, 9), (480, 640, 14), (1080, 1920, 30)])
def test_text_grows_with_the_frame(height: int, width: int, pixels: int) -> None:
    assert text_pixels(height, width) == pixels
    assert text_tile("Hg", pixels, BLACK).shape[0] >= pixels


def test_a_tile_is_rendered_once() -> None:
    assert text_tile("person #1", 14, (1, 2, 3)) is text_tile("person #1", 14, (1, 2, 3))


@pytest.mark.parametrize(("ground", "text"), [((255, 255, 255), BLACK), ((20, 20, 60), WHITE)])
def test_text_contrasts_with_its_ground(ground: tuple[int, int, int], text: tuple[int, int, int]) -> None:
    assert readable_on(ground) == text
    tile = text_tile("HHH", 20, ground)
    assert (tile == np.array(text)).all(axis=-1).any()


@settings(max_examples=40)
@given(st.text(max_size=60), st.integers(0, 400))
def test_fitted_text_fits(text: str, width: int) -> None:
    fitted = fit_text(text, 12, width)
    assert fitted == "" or text_tile(fitted, 12, BLACK).shape[1] <= width
    if fitted and fitted != text:
        assert fitted.endswith("..")
        assert text.startswith(fitted[:-2])


@given(st.integers(-50, 80), st.integers(-50, 80), st.integers(1, 60), st.integers(1, 60))
def test_a_tile_is_pasted_inside_whatever_the_place(left: int, top: int, rows: int, columns: int) -> None:
    image = np.zeros((30, 40, 3), np.uint8)
    paste(image, np.full((rows, columns, 3), 7, np.uint8), left, top)
    assert (image == 7).all(axis=-1).sum() == min(rows, 30) * min(columns, 40)
