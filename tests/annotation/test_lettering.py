"""Text is legible at every frame size and never larger than its place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.annotation.lettering import fit_text, paste, text_pixels, text_tile, write_changing
from edge_runtime.annotation.palette import BLACK, WHITE, readable_on


@pytest.mark.parametrize(("height", "width", "pixels"), [(144, 176, 9), (480, 640, 14), (1080, 1920, 30)])
def test_text_grows_with_the_frame(height: int, width: int, pixels: int) -> None:
    assert text_pixels(height, width) == pixels
    assert text_tile("Hg", pixels, BLACK).shape[0] >= pixels


def test_a_tile_is_rendered_once() -> None:
    assert text_tile("person #1", 14, (1, 2, 3)) is text_tile("person #1", 14, (1, 2, 3))


def test_all_tiles_of_a_size_are_equally_high() -> None:
    assert (
        len({text_tile(text, 14, BLACK).shape[0] for text in ("a", "gjp_", "H", "12", " ", "face #1")}) == 1
    )


@pytest.mark.parametrize(("width", "written"), [(5, False), (60, True), (400, True)])
def test_changing_text_is_cut_at_the_edge(width: int, *, written: bool) -> None:
    image = np.full((40, width, 3), 255, np.uint8)
    height = write_changing(image, "cabin 12.3 s frame 369", 14, (40, 40, 40))
    assert height <= 40
    assert (image[height:] == 255).all()
    assert (height > 0) == written
    assert bool((image[0, 0] == 40).all()) == written


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
