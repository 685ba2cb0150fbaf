"""A drawn world with a marker in it: a drawn face that rigs show and hide, and that the demo's model finds."""

import cv2
import numpy as np

from edge_runtime.qualification.scenes import scene
from edge_runtime.sources import Image
from sim.scenario.records import World
from sim.scene.render import Renderer
from sim.scene.world import HEIGHT, WIDTH, Actor, Sight

_SCENE = "portrait"
_MARKER = Actor(label=0, lane=1.0, begins=0.0, speed=1.0, pause=0.0, colour=(0, 0, 0), size=1.0)


class MarkedRenderer(Renderer):
    """Draws a world, or the marker before it.

    Args:
        world: behind the marker.

    Attributes:
        lit: the marker is shown; may be changed.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.lit = False
        drawn = scene(_SCENE)
        picture = cv2.resize(drawn.image, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        self._picture = np.minimum(np.asarray(picture, np.uint8), np.uint8(252))
        across, down = WIDTH / drawn.image.shape[1], HEIGHT / drawn.image.shape[0]
        left, top, right, bottom = drawn.objects[0].xyxy
        self._box = (left * across, top * down, right * across, bottom * down)

    def draw(self, seconds: float) -> Image:
        """The picture at a time, with the noise of a sensor: a still picture would count as frozen."""
        image = super().draw(seconds)
        if not self.lit or self.covered:
            return image
        return np.asarray(self._picture + (image & np.uint8(3)), np.uint8)

    def truth(self, seconds: float) -> list[Sight]:
        """Who is in the picture."""
        if not self.lit:
            return super().truth(seconds)
        return [Sight(_MARKER, self._box, 0.0)]
