"""Constant-velocity Kalman filters of many boxes at once, in closed form and in measured time.

State per box: centre x, centre y, width, height, each with a velocity. The noise of x and width scales with the
box's width, that of y and height with its height (BoT-SORT, Aharon et al. 2022, section 3.1), with the weights of
DeepSORT and ByteTrack: 1/20 of the size for a position, 1/160 for a velocity. So every axis is a filter of its
own of two numbers, whose 2x2 algebra is written out here: no matrix is inverted. Centre and size of one
axis have equal noise, so they share one covariance.

The published weights are per frame of a 30 fps benchmark. Here they are densities per second, integrated over
the time that really passed, so that two steps of 0.1 s and one of 0.2 s predict the same: cameras drop
frames, and a recording may have a variable frame rate.

Arrays keep the boxes on their last axis: numpy then works on long rows, which halves the time of a step.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_REFERENCE_FPS = 30.0
_POSITION = 1 / 20
_VELOCITY = 1 / 160

_MEASUREMENT_VARIANCE = _POSITION**2
_POSITION_DENSITY = _POSITION**2 * _REFERENCE_FPS
_VELOCITY_DENSITY = _VELOCITY**2 * _REFERENCE_FPS**3
_FIRST_POSITION_VARIANCE = (2 * _POSITION) ** 2
_FIRST_VELOCITY_VARIANCE = (10 * _VELOCITY * _REFERENCE_FPS) ** 2

SMALLEST_SIDE = 0.1
"""Pixels: thinner is no detection, and a shrinking box must not turn inside out while nothing is measured."""

_ROWS = 16


class Motion:
    """Filters of N boxes, which `predict` and `correct` change in place.

    Attributes:
        state: (2, 2, 2, N) float64, [position, velocity][centre, size][x, y], pixels and pixels per second.
        covariance: (4, 2, N) float64 for the axes x and y: variance of position, covariance of position and
            velocity, variance of velocity; last, the size squared that the noise of this step scales with.
    """

    __slots__ = ("_table", "covariance", "state")

    def __init__(self, table: Array) -> None:
        self._table = table
        self.state = table[:8].reshape(2, 2, 2, -1)
        self.covariance = table[8:].reshape(4, 2, -1)

    def __len__(self) -> int:
        return int(self._table.shape[1])

    @classmethod
    def begin(cls, box: Array) -> "Motion":
        """Filters of boxes (2, 2, N) measured once, standing still for all that is known."""
        motion = cls(np.zeros((_ROWS, box.shape[-1])))
        motion.state[0] = box
        position, _, velocity, area = motion.covariance
        np.square(box[1], out=area)
        np.multiply(area, _FIRST_POSITION_VARIANCE, out=position)
        np.multiply(area, _FIRST_VELOCITY_VARIANCE, out=velocity)
        return motion

    def predict(self, seconds: float, seen: npt.NDArray[np.bool_]) -> None:
        """Moves every box to `seconds` later.

        Args:
            seconds: elapsed, >= 0.
            seen: (N,), whether the box was measured in the last step; the size of others must not drift on.
        """
        position, velocity = self.state
        np.square(position[1], out=self.covariance[3])
        velocity[1] *= seen
        position += velocity * seconds
        np.maximum(position[1], SMALLEST_SIDE, out=position[1])
        rows = self._table[8:].reshape(4, -1)
        rows[:3] = _step(seconds) @ rows

    def correct(self, measured: Array, hit: npt.NDArray[np.bool_]) -> None:
        """Takes one measured box for every filter, (2, 2, N), where `hit` (N,) says that there is one."""
        total = self.covariance[3] * _MEASUREMENT_VARIANCE
        total += self.covariance[0]
        gain = self.covariance[:2] / total
        gain *= hit
        position_gain, velocity_gain = gain
        self.state += gain[:, None] * (measured - self.state[0])
        self.covariance[2] -= velocity_gain * self.covariance[1]
        self.covariance[:2] *= 1 - position_gain

    def select(self, index: npt.NDArray[np.int64]) -> "Motion":
        """The filters at `index`, in that order."""
        return Motion(self._table.take(index, axis=1))

    def join(self, other: "Motion") -> "Motion":
        """These filters, then those of `other`."""
        return Motion(np.concatenate([self._table, other._table], axis=1))


@lru_cache(maxsize=64)
def _step(seconds: float) -> Array:
    """What becomes of (variance, covariance, variance of velocity, size squared) over a step, (3, 4).

    The last column is the integral of the two white noises: exact, so that a step may be cut anywhere.
    """
    position = _POSITION_DENSITY * seconds + _VELOCITY_DENSITY * seconds**3 / 3
    return np.array(
        [
            [1.0, 2 * seconds, seconds**2, position],
            [0.0, 1.0, seconds, _VELOCITY_DENSITY * seconds**2 / 2],
            [0.0, 0.0, 1.0, _VELOCITY_DENSITY * seconds],
        ]
    )


def corners(box: Array) -> npt.NDArray[np.float32]:
    """Boxes (2, 2, N) as centres and sizes → (4, N) float32 rows x1, y1, x2, y2."""
    half = box[1] * 0.5
    result = np.empty((4, box.shape[-1]), np.float32)
    np.subtract(box[0], half, out=result[:2], casting="same_kind")
    np.add(box[0], half, out=result[2:], casting="same_kind")
    return result


def centres(corner: npt.NDArray[np.float32]) -> Array:
    """Boxes (4, N) as float32 rows x1, y1, x2, y2 → (2, 2, N) centres and sizes."""
    box = np.empty((2, 2, corner.shape[-1]))
    np.subtract(corner[2:], corner[:2], out=box[1])
    np.multiply(box[1], 0.5, out=box[0])
    box[0] += corner[:2]
    return box
