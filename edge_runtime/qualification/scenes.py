"""Reference scenes: pictures drawn by this code whose contents are known without a data set.

A healthy detector recognises a drawn stop sign, clock, walker or face: six undamaged COCO models scored 0.70
to 0.97 on sign and clock, an int8 DEIMv2 whose mAP had fallen to .04 scored 0.12 on both (decision 0013). So a
model can be asked on any device, without pictures of people, whether it sees at all, whether its labels are
shifted, and whether red and blue were exchanged on the way in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import cv2
import numpy as np

from edge_runtime.perception.detections import FloatArray
from edge_runtime.qualification.drawing import HEIGHT, Color, Point, ellipse, gradient
from edge_runtime.qualification.figures import Box, bust, walker
from edge_runtime.sources.frame import Image

_STROKES: Final = {
    "S": (
        ((1, 0.1), (0.8, 0), (0.2, 0), (0, 0.15), (0, 0.35), (0.2, 0.5)),
        ((0.2, 0.5), (0.8, 0.5), (1, 0.65), (1, 0.85), (0.8, 1), (0.2, 1), (0, 0.9)),
    ),
    "T": (((0, 0), (1, 0)), ((0.5, 0), (0.5, 1))),
    "O": (((0.3, 0), (0.7, 0), (1, 0.25), (1, 0.75), (0.7, 1), (0.3, 1), (0, 0.75), (0, 0.25), (0.3, 0)),),
    "P": (((0, 1), (0, 0), (0.75, 0), (1, 0.15), (1, 0.4), (0.75, 0.55), (0, 0.55)),),
}
"""Letters as polylines in a unit square, y downwards."""


@dataclass(frozen=True, slots=True)
class DrawnObject:
    """Something that a scene shows.

    Attributes:
        name: its COCO name, or `face`.
        xyxy: where it is, in pixels of the scene.
        reliable: healthy small detectors all recognise it when they know its class.
    """

    name: str
    xyxy: Box
    reliable: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """A drawn picture, (480, 640, 3) uint8 BGR, and what it shows."""

    name: str
    image: Image
    objects: tuple[DrawnObject, ...]


@lru_cache(maxsize=1)
def reference_scenes() -> tuple[Scene, ...]:
    """Street signs, a clock, walkers, oranges, one face, two faces."""
    return (_street(), _clock(), _walkers(), _table(), _portrait(), _portraits())


def scene(name: str) -> Scene:
    """The reference scene of that name.

    Raises:
        KeyError: there is none.
    """
    return {drawn.name: drawn for drawn in reference_scenes()}[name]


def _finish(name: str, canvas: FloatArray, objects: Sequence[DrawnObject]) -> Scene:
    blurred = cv2.GaussianBlur(canvas, (0, 0), 0.8)  # no camera draws edges of one pixel
    image: Image = np.clip(np.rint(blurred), 0, 255).astype(np.uint8)
    image.setflags(write=False)
    return Scene(name, image, tuple(objects))


def _around(center: Point, radius: float) -> Box:
    return center[0] - radius, center[1] - radius, center[0] + radius, center[1] + radius


def _street() -> Scene:
    canvas = gradient((235, 206, 170), (225, 222, 216))
    canvas[298:] = (95, 100, 100)
    canvas[298:317] = (70, 120, 80)
    return _finish(
        "street",
        canvas,
        [_stop_sign(canvas, (150, 150), 70), _traffic_light(canvas, (480, 170), 50)],
    )


def _stop_sign(canvas: FloatArray, center: tuple[int, int], radius: int) -> DrawnObject:
    x, y = center
    cv2.rectangle(canvas, (x - 5, y), (x + 5, HEIGHT), (110, 110, 110), -1)
    for size, color in ((radius, (250, 250, 250)), (radius * 0.92, (40, 30, 190))):
        angle = np.pi / 8 + np.arange(8) * np.pi / 4
        corners = np.stack([x + size * np.cos(angle), y + size * np.sin(angle)], 1)
        cv2.fillPoly(canvas, [np.rint(corners).astype(np.int32)], color)
    _letters(canvas, "STOP", center, 0.55 * radius, (250, 250, 250))
    return DrawnObject("stop sign", _around(center, radius), reliable=True)


def _letters(canvas: FloatArray, text: str, center: Point, height: float, color: Color) -> None:
    """Strokes of our own: OpenCV 5 draws text with other fonts than OpenCV 4, and on 8-bit images only."""
    width, thickness = 0.62 * height, max(2, round(height / 6))
    step = 1.4 * width
    left = center[0] - (step * (len(text) - 1) + width) / 2
    for place, letter in enumerate(text):
        for stroke in _STROKES[letter]:
            points = np.array(stroke, np.float32) * (width, height)
            points += (left + place * step, center[1] - height / 2)
            line = [np.rint(points).astype(np.int32)]
            cv2.polylines(canvas, line, isClosed=False, color=color, thickness=thickness)


def _traffic_light(canvas: FloatArray, center: tuple[int, int], size: int) -> DrawnObject:
    x, y = center
    cv2.rectangle(canvas, (x - 4, y), (x + 4, HEIGHT), (60, 60, 60), -1)
    box = (x - size // 2, y - round(1.3 * size), x + size // 2, y + round(1.3 * size))
    cv2.rectangle(canvas, box[:2], box[2:], (25, 30, 30), -1)
    for row, color in enumerate([(40, 40, 240), (30, 60, 60), (40, 60, 30)]):
        ellipse(canvas, (x, y + (row - 1) * 0.8 * size), (size * 0.33, size * 0.33), color)
    return DrawnObject("traffic light", box, reliable=False)


def _clock() -> Scene:
    canvas = gradient((205, 215, 220), (170, 178, 182))
    x, y, radius = 320, 220, 110
    ellipse(canvas, (x, y), (radius, radius), (40, 40, 40))
    ellipse(canvas, (x, y), (radius * 0.9, radius * 0.9), (245, 245, 245))

    def at(hour: float, reach: float) -> tuple[int, int]:
        angle = hour * np.pi / 6
        return round(x + radius * reach * np.sin(angle)), round(y - radius * reach * np.cos(angle))

    for hour in range(12):
        cv2.line(canvas, at(hour, 0.66), at(hour, 0.82), (20, 20, 20), 6)
    cv2.line(canvas, (x, y), at(10.2, 0.42), (20, 20, 20), 9)
    cv2.line(canvas, (x, y), at(2, 0.7), (20, 20, 20), 6)
    return _finish("clock", canvas, [DrawnObject("clock", _around((x, y), radius), reliable=True)])


def _walkers() -> Scene:
    canvas = gradient((215, 205, 195), (190, 185, 180))
    canvas[300:] = (120, 125, 128)
    boxes = (
        walker(canvas, (150, 120), 250, 0.6, (60, 60, 170)),
        walker(canvas, (320, 140), 230, 0.9, (150, 110, 50)),
        walker(canvas, (500, 110), 280, 0.4, (70, 140, 70)),
    )
    return _finish("walkers", canvas, [DrawnObject("person", box, reliable=True) for box in boxes])


def _table() -> Scene:
    canvas = gradient((200, 215, 225), (200, 215, 225))
    canvas[200:] = (70, 110, 150)
    return _finish(
        "table", canvas, [_orange(canvas, at, 75.0) for at in ((200, 260), (330, 280), (265, 340))]
    )


def _orange(canvas: FloatArray, center: Point, radius: float) -> DrawnObject:
    y, x = np.mgrid[: canvas.shape[0], : canvas.shape[1]].astype(np.float32)
    from_light = np.hypot(x - center[0] + 0.35 * radius, y - center[1] + 0.4 * radius) / radius
    shade = np.clip(1.1 - 0.55 * from_light, 0.3, 1.15)[..., None]
    ellipse(canvas, center, (radius, radius), np.array((20, 140, 250), np.float32) * shade)
    stalk = (center[0] + 0.1 * radius, center[1] - 0.75 * radius)
    ellipse(canvas, stalk, (0.07 * radius, 0.07 * radius), (40, 90, 60))
    return DrawnObject("orange", _around(center, radius), reliable=False)


def _portrait() -> Scene:
    canvas = gradient((160, 150, 140), (140, 130, 120))
    return _finish("portrait", canvas, [DrawnObject("face", bust(canvas, (320, 200), 120), reliable=True)])


def _portraits() -> Scene:
    canvas = gradient((160, 160, 150), (120, 120, 110))
    boxes = (bust(canvas, (180, 220), 80), bust(canvas, (460, 260), 52))
    return _finish("portraits", canvas, [DrawnObject("face", box, reliable=True) for box in boxes])
