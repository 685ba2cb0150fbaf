import numpy as np
import pytest

from edge_runtime.sources.content import ContentCheck
from edge_runtime.sources.frame import Image

S = 1_000_000_000


def noise(seed: int, low: int = 0, high: int = 256, size: tuple[int, int] = (240, 320)) -> Image:
    return np.random.default_rng(seed).integers(low, high, (*size, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("image", "dark"),
    [
        (np.zeros((240, 320, 3), np.uint8), True),
        (np.full((240, 320, 3), 16, np.uint8), True),
        (noise(1, 0, 30), True),
        (noise(1, 0, 60), False),
        (np.full((240, 320, 3), 128, np.uint8), False),
        (np.full((1, 1, 3), 128, np.uint8), False),
        (np.zeros((3, 500, 3), np.uint8), True),
    ],
)
def test_dark_is_a_picture_without_light(image: Image, dark: bool) -> None:
    assert ContentCheck(None).look(image, None, 0).dark is dark


def test_a_lamp_in_the_night_is_a_picture() -> None:
    night = np.full((240, 320, 3), 8, np.uint8)
    night[40:80, 100:140] = (120, 200, 220)
    assert not ContentCheck(None).look(night, None, 0).dark


def test_a_single_channel_can_be_the_light() -> None:
    red = np.zeros((240, 320, 3), np.uint8)
    red[..., 2] = 90
    assert not ContentCheck(None).look(red, None, 0).dark


def test_a_mask_is_not_darkness() -> None:
    image = np.full((240, 320, 3), 100, np.uint8)
    masked = np.zeros((240, 320), np.bool_)
    masked[:, :300] = True
    image[masked] = 0
    assert not ContentCheck(None).look(image, masked, 0).dark
    image[:] = 0
    assert ContentCheck(None).look(image, masked, 0).dark
    assert ContentCheck(None).look(image, np.ones((240, 320), np.bool_), 0).dark


def test_the_same_picture_for_too_long_is_frozen_until_it_changes() -> None:
    check, still = ContentCheck(2 * S), noise(1)
    looks = [check.look(still.copy(), None, tick * S // 10).frozen for tick in range(40)]
    first = looks.index(True)
    # The digest is known from the second picture on, so the freeze is measured from there.
    assert 20 <= first <= 22
    assert all(looks[first:])
    assert not check.look(noise(2), None, 4 * S).frozen
    assert not check.look(still.copy(), None, 5 * S).frozen


def test_a_change_between_the_samples_is_life() -> None:
    check, image = ContentCheck(2 * S), noise(1)
    for tick in range(60):
        image[0, 0] = tick
        assert not check.look(image, None, tick * S // 2).frozen


def test_recordings_may_hold_still() -> None:
    check, still = ContentCheck(None), noise(1)
    assert not any(check.look(still, None, tick * S).frozen for tick in range(100))


def test_another_size_is_another_picture() -> None:
    check = ContentCheck(S)
    assert not check.look(noise(1), None, 0).frozen
    assert not check.look(noise(1, size=(480, 640)), None, 5 * S).frozen
