"""The filters: closed form against textbook matrices, and time that may be cut anywhere."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.perception.tracking.motion import SMALLEST_SIDE, Motion, centres, corners

Array = npt.NDArray[np.float64]

seconds = st.floats(0.001, 5)


def boxes(count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    box = np.empty((2, 2, count))
    box[0] = rng.uniform(0, 1000, (2, count))
    box[1] = rng.uniform(5, 200, (2, count))
    return box


def moving(count: int, seed: int) -> Motion:
    """Filters that have seen two detections, so velocities and covariances are those of a real track."""
    motion = Motion.begin(boxes(count, seed))
    motion.predict(0.1, np.ones(count, np.bool_))
    jitter = np.random.default_rng(seed + 1).normal(0, 3, (2, 2, count))
    motion.correct(motion.state[0] + jitter, np.ones(count, np.bool_))
    return motion


class Textbook:
    """One axis of one box, [position, velocity], by the matrices of any textbook and numerical integration."""

    def __init__(self, position: float, velocity: float, covariance: Array) -> None:
        self.mean = np.array([position, velocity])
        self.covariance = covariance

    def predict(self, seconds: float, area: float) -> None:
        density = np.diag([30 / 20**2, 30**3 / 160**2]) * area
        moments, step = np.polynomial.legendre.leggauss(4)
        noise = np.zeros((2, 2))
        for moment, weight in zip((moments + 1) / 2 * seconds, step / 2 * seconds, strict=True):
            rest = np.array([[1, seconds - moment], [0, 1]])
            noise += weight * rest @ density @ rest.T
        move = np.array([[1, seconds], [0, 1]])
        self.mean = move @ self.mean
        self.covariance = move @ self.covariance @ move.T + noise

    def correct(self, measured: float, area: float) -> None:
        observe = np.array([[1.0, 0.0]])
        innovation = observe @ self.covariance @ observe.T + area / 20**2
        gain = self.covariance @ observe.T @ np.linalg.inv(innovation)
        self.mean = self.mean + (gain * (measured - self.mean[0]))[:, 0]
        self.covariance = (np.eye(2) - gain @ observe) @ self.covariance


@settings(max_examples=50, deadline=None)
@given(seconds, st.integers(0, 10_000), st.integers(0, 1), st.integers(0, 1))
def test_closed_form_is_the_textbook_filter(elapsed: float, seed: int, part: int, axis: int) -> None:
    motion = moving(3, seed)
    area = motion.state[0, 1, axis, 0] ** 2
    variance, cross, spread = motion.covariance[:3, axis, 0]
    reference = Textbook(
        motion.state[0, part, axis, 0],
        motion.state[1, part, axis, 0],
        np.array([[variance, cross], [cross, spread]]),
    )
    motion.state[1, 1] *= 0.01  # a size that keeps clear of the floor
    if part == 1:
        reference.mean[1] *= 0.01
    motion.predict(elapsed, np.ones(3, np.bool_))
    reference.predict(elapsed, area)
    measured = motion.state[0] + 2.5
    reference.correct(float(measured[part, axis, 0]), area)
    motion.correct(measured, np.ones(3, np.bool_))
    assert motion.state[:, part, axis, 0] == pytest.approx(reference.mean, rel=1e-9, abs=1e-9)
    found = motion.covariance[:3, axis, 0]
    expected = reference.covariance[[0, 0, 1], [0, 1, 1]]
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(seconds, st.floats(0.05, 0.95), st.integers(0, 10_000))
def test_a_step_may_be_cut_anywhere(elapsed: float, share: float, seed: int) -> None:
    whole, parts = moving(4, seed), moving(4, seed)
    for motion in (whole, parts):
        motion.state[1, 1] = 0  # the noise scales with the size, so hold that still
    seen = np.ones(4, np.bool_)
    whole.predict(elapsed, seen)
    parts.predict(elapsed * share, seen)
    parts.predict(elapsed * (1 - share), seen)
    np.testing.assert_allclose(parts.state, whole.state, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-9)


def test_no_time_changes_nothing() -> None:
    motion, before = moving(4, 1), moving(4, 1)
    motion.predict(0.0, np.ones(4, np.bool_))
    np.testing.assert_array_equal(motion.state, before.state)
    np.testing.assert_array_equal(motion.covariance[:3], before.covariance[:3])


def test_only_what_was_hit_is_corrected() -> None:
    motion, before = moving(3, 2), moving(3, 2)
    hit = np.array([True, False, True])
    motion.correct(motion.state[0] + 10, hit)
    np.testing.assert_array_equal(motion.state[..., 1], before.state[..., 1])
    np.testing.assert_array_equal(motion.covariance[:, :, 1], before.covariance[:, :, 1])
    assert (motion.state[0, 0][:, hit] > before.state[0, 0][:, hit]).all()
    assert (motion.covariance[0][:, hit] < before.covariance[0][:, hit]).all()


def test_the_size_of_an_unseen_box_stands_still_and_the_place_moves_on() -> None:
    motion = moving(2, 3)
    motion.state[1] = 30.0
    before = motion.state[0].copy()
    motion.predict(0.5, np.array([False, True]))
    np.testing.assert_allclose(motion.state[0, 0], before[0] + 15)
    np.testing.assert_allclose(motion.state[0, 1, :, 0], before[1, :, 0])
    np.testing.assert_allclose(motion.state[0, 1, :, 1], before[1, :, 1] + 15)


def test_a_shrinking_box_never_turns_inside_out() -> None:
    motion = moving(2, 4)
    motion.state[1, 1] = -1e4
    motion.predict(3.0, np.ones(2, np.bool_))
    assert (motion.state[0, 1] == SMALLEST_SIDE).all()
    low_x, low_y, high_x, high_y = corners(motion.state[0])
    assert (high_x > low_x).all()
    assert (high_y > low_y).all()


def test_uncertainty_grows_while_nothing_is_seen_and_stays_positive() -> None:
    motion = moving(5, 5)
    for _ in range(30):
        before = motion.covariance[:3].copy()
        motion.predict(0.1, np.zeros(5, np.bool_))
        assert (motion.covariance[0] > before[0]).all()
        assert (motion.covariance[2] > before[2]).all()
        assert (motion.covariance[0] * motion.covariance[2] >= motion.covariance[1] ** 2).all()


@given(st.integers(0, 10_000))
def test_corners_and_centres_are_inverse(seed: int) -> None:
    box = boxes(6, seed)
    np.testing.assert_allclose(centres(corners(box)), box, atol=1e-3)


def test_select_and_join_keep_the_order() -> None:
    motion = moving(5, 6)
    index = np.array([3, 1])
    picked = motion.select(index)
    np.testing.assert_array_equal(picked.state, motion.state[..., index])
    joined = picked.join(moving(2, 7))
    assert len(joined) == 4
    np.testing.assert_array_equal(joined.state[..., :2], picked.state)
    np.testing.assert_array_equal(joined.covariance[..., 2:], moving(2, 7).covariance)
