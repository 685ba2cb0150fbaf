"""Scenes are the same everywhere, and show what they say."""

import numpy as np
import pytest

from edge_runtime.qualification.scenes import reference_scenes, scene


def test_scenes_are_pictures_with_known_objects() -> None:
    for drawn in reference_scenes():
        assert drawn.image.shape == (480, 640, 3)
        assert drawn.image.dtype == np.uint8
        assert not drawn.image.flags.writeable
        assert drawn.objects
        for item in drawn.objects:
            x1, y1, x2, y2 = item.xyxy
            assert -1 <= x1 < x2 <= 641
            assert -1 <= y1 < y2 <= 481


def test_drawing_twice_gives_the_same_pixels() -> None:
    first = [drawn.image.copy() for drawn in reference_scenes()]
    reference_scenes.cache_clear()
    for before, after in zip(first, reference_scenes(), strict=True):
        np.testing.assert_array_equal(before, after.image)


def test_the_stop_sign_is_red_and_the_oranges_are_orange() -> None:
    # Blue, green, red: a red and blue exchange must change what a model sees (bug kind 6).
    blue, _, red = scene("street").image[110, 150].astype(int)
    assert red > blue + 100
    blue, green, red = scene("table").image[330, 250].astype(int)
    assert red > green > blue + 60


def test_an_unknown_scene_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        scene("moon")
