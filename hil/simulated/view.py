"""What rig `sim` shows its camera: a square that moves, and a marker. Drawn worlds take longer than all else."""

import numpy as np

from edge_runtime.sources import Image
from sim.scene.world import HEIGHT, WIDTH, Actor, Sight

_MARKER = Actor(label=0, lane=1.0, begins=0.0, speed=1.0, pause=0.0, colour=(0, 0, 0), size=1.0)
_BOX = (120.0, 60.0, 200.0, 220.0)


class PlainView:
    """A picture at any time, and who is in it.

    Attributes:
        lit: the marker is shown.
        covered: the lens is covered.
    """

    def __init__(self) -> None:
        self.lit = self.covered = False
        self._ground: Image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)

    def draw(self, seconds: float) -> Image:
        """The picture, (240, 320, 3) uint8 BGR; no two are the same."""
        if self.covered:
            return np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        image: Image = self._ground.copy()
        left = int(seconds * 1000) % (WIDTH - 40)
        image[100:140, left : left + 40] = 200
        return image

    def truth(self, seconds: float) -> list[Sight]:  # noqa: ARG002 - the marker does not move
        """The marker, where it is shown."""
        return [Sight(_MARKER, _BOX, 0.0)] if self.lit else []
