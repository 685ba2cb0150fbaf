"""Draws the world, and what lies between it and the sensor: weather, night, lens, exposure, shake.

Every picture follows from the world's seed and the time alone. A detector that was trained on photographs finds
little in drawings: where a model is asked, that is said, and where none is, detections come from the truth.
"""

import cv2
import numpy as np
import numpy.typing as npt

from edge_runtime.sources import Image
from sim.scenario.records import World
from sim.scene.world import HEIGHT, HORIZON, WIDTH, Sight, actors, sights, step_of

Floats = npt.NDArray[np.float32]

_NOISE = 2.0
"""Of the sensor, grey levels; it grows with the gain that a dark scene needs."""


class Renderer:
    """Draws one world at any time.

    Args:
        world: what stands there, and how it is seen.

    Attributes:
        covered: the lens is covered; may be changed.
    """

    def __init__(self, world: World) -> None:
        self._world, self._actors = world, actors(world)
        self.covered = False
        self._ground = _ground(world)
        rng = np.random.default_rng(world.seed + 1)
        self._spots = rng.uniform(0.0, 1.0, (60, 3))
        self._noise: Floats = rng.normal(0.0, _NOISE, (2 * HEIGHT, 2 * WIDTH, 3)).astype(np.float32)

    def truth(self, seconds: float) -> list[Sight]:
        """Who is in the picture, the farthest first."""
        return sights(self._actors, seconds)

    def draw(self, seconds: float) -> Image:
        """The picture at a time, (240, 320, 3) uint8 BGR."""
        number = round(seconds * 1000)
        rng = np.random.default_rng((self._world.seed, number))
        if self.covered:
            return np.asarray(rng.integers(0, 6, (HEIGHT, WIDTH, 3)), np.uint8)
        canvas = self._ground.copy()
        for sight in self.truth(seconds):
            _draw(canvas, sight)
        found: Floats = canvas.astype(np.float32)
        found = self._weather(found, rng)
        found = self._light(found, rng)
        found = self._lens(found)
        if self._world.shake:
            found = self._shaken(found, rng)
        return np.clip(found, 0, 255).astype(np.uint8)

    def _weather(self, found: Floats, rng: np.random.Generator) -> Floats:
        kind = self._world.weather
        if kind == "fog":
            depth = np.linspace(0.85, 0.25, HEIGHT, dtype=np.float32)[:, None, None]
            return np.asarray(found * (1 - depth) + np.float32(190.0) * depth, np.float32)
        if kind == "rain":
            layer = np.zeros((HEIGHT, WIDTH), np.float32)
            for x, y, length in zip(
                rng.integers(0, WIDTH, 160),
                rng.integers(-20, HEIGHT, 160),
                rng.integers(6, 16, 160),
                strict=True,
            ):
                cv2.line(layer, (int(x), int(y)), (int(x) - 3, int(y + length)), 1.0, 1)
            return np.asarray(found * np.float32(0.82) + layer[..., None] * np.float32(70.0), np.float32)
        if kind == "snow":
            for x, y, size in zip(
                rng.integers(0, WIDTH, 220),
                rng.integers(0, HEIGHT, 220),
                rng.integers(1, 3, 220),
                strict=True,
            ):
                cv2.circle(found, (int(x), int(y)), int(size), (238.0, 238.0, 238.0), -1)
        return found

    def _light(self, found: Floats, rng: np.random.Generator) -> Floats:
        night = self._world.night
        found = found * np.float32((1.0 - 0.86 * night) * 2.0**self._world.exposure)
        if night:
            found[..., 2] *= np.float32(1.0 - 0.35 * night)  # what is left is blue
        # a part of one large field, another one each time: drawing it anew takes longer than all else
        y, x = (int(value) for value in rng.integers(0, (HEIGHT, WIDTH)))
        found += self._noise[y : y + HEIGHT, x : x + WIDTH] * np.float32(1.0 + 3.0 * night)
        return found

    def _lens(self, found: Floats) -> Floats:
        if self._world.dirt <= 0:
            return found
        mask = np.zeros((HEIGHT, WIDTH), np.float32)
        for x, y, size in self._spots[: round(len(self._spots) * self._world.dirt)]:
            centre = (int(x * WIDTH), int(y * HEIGHT))
            cv2.circle(mask, centre, int(8 + 26 * size), 1.0, -1)
        mask = np.asarray(cv2.GaussianBlur(mask, (0, 0), 5), np.float32)[..., None] * np.float32(0.8)
        blurred = np.asarray(cv2.GaussianBlur(found, (0, 0), 9), np.float32)
        return np.asarray(
            found * (1 - mask) + (blurred * np.float32(0.4) + np.float32(40.0)) * mask, np.float32
        )

    def _shaken(self, found: Floats, rng: np.random.Generator) -> Floats:
        dx, dy = rng.normal(0.0, self._world.shake, 2)
        matrix = np.array([[1.0, 0.0, dx], [0.0, 1.0, dy]], np.float32)
        moved = cv2.warpAffine(found, matrix, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(moved, np.float32)


def _ground(world: World) -> Image:
    """What does not move: sky, a hall, the floor, and the pallet line where there is one."""
    rng = np.random.default_rng(world.seed + 2)
    rows = np.linspace(0, 1, HEIGHT, dtype=np.float32)[:, None]
    sky = np.where(rows < HORIZON, 1.0, 0.0)[..., None]
    floor = np.array([96.0, 102.0, 106.0], np.float32) * (0.75 + 0.45 * rows[..., None])
    above = np.array([205.0, 180.0, 150.0], np.float32) * (1.15 - 0.6 * rows[..., None])
    found = np.broadcast_to(above * sky + floor * (1 - sky), (HEIGHT, WIDTH, 3)).copy()
    found += cv2.resize(rng.normal(0, 5, (60, 80)).astype(np.float32), (WIDTH, HEIGHT))[..., None]
    image: Image = np.clip(found, 0, 255).astype(np.uint8)
    horizon = int(HORIZON * HEIGHT)
    left = 10
    while left < WIDTH:
        wide, tall = int(rng.integers(24, 60)), int(rng.integers(24, 66))
        shade = int(rng.integers(90, 150))
        cv2.rectangle(
            image, (left, horizon - tall), (left + wide, horizon), (shade, shade - 8, shade - 14), -1
        )
        for x in range(left + 5, left + wide - 6, 12):
            for y in range(horizon - tall + 6, horizon - 8, 14):
                cv2.rectangle(image, (x, y), (x + 5, y + 7), (shade - 50, shade - 54, shade - 56), -1)
        left += wide + int(rng.integers(4, 26))
    if world.pallets:
        top, bottom = int(0.80 * HEIGHT), int(0.90 * HEIGHT)
        cv2.rectangle(image, (0, top), (WIDTH, bottom), (62, 62, 66), -1)
        for x in range(0, WIDTH, 16):
            cv2.line(image, (x, top + 2), (x, bottom - 2), (90, 90, 96), 2)
    return image


def _draw(canvas: Image, sight: Sight) -> None:
    left, top, right, bottom = (round(value) for value in sight.box)
    shadow = ((left + right) // 2, bottom)
    cv2.ellipse(
        canvas,
        shadow,
        (max(1, (right - left) // 2), max(1, (bottom - top) // 14)),
        0,
        0,
        360,
        (60, 60, 62),
        -1,
    )
    (_person, _car, _pallet)[sight.actor.label](canvas, sight, (left, top, right, bottom))


Box = tuple[int, int, int, int]


def _person(canvas: Image, sight: Sight, box: Box) -> None:
    left, top, right, bottom = box
    tall, middle = bottom - top, (left + right) // 2
    head, hip = max(2, tall // 9), top + int(tall * 0.52)
    thick = max(1, tall // 10)
    swing = int(step_of(sight) * tall * 0.11)
    for side in (-1, 1):
        cv2.line(canvas, (middle, hip), (middle + side * swing, bottom - 1), (58, 46, 40), thick)
        cv2.line(
            canvas,
            (middle, top + int(tall * 0.26)),
            (middle - side * int(swing * 1.1), top + int(tall * 0.5)),
            sight.actor.colour,
            max(1, thick - 1),
        )
    cv2.rectangle(
        canvas,
        (middle - max(1, tall // 9), top + int(tall * 0.21)),
        (middle + max(1, tall // 9), hip),
        sight.actor.colour,
        -1,
    )
    cv2.circle(canvas, (middle, top + head), head, (142, 172, 208), -1)


def _car(canvas: Image, sight: Sight, box: Box) -> None:
    left, top, right, bottom = box
    tall, wide = bottom - top, right - left
    waist, wheel = top + int(tall * 0.42), max(2, int(tall * 0.2))
    roof = np.array(
        [
            (left + int(wide * 0.2), waist),
            (left + int(wide * 0.32), top),
            (left + int(wide * 0.7), top),
            (left + int(wide * 0.84), waist),
        ],
        np.int32,
    )
    cv2.fillPoly(canvas, [roof], (92, 78, 66))
    cv2.rectangle(canvas, (left, waist), (right, bottom - wheel), sight.actor.colour, -1)
    for share in (0.2, 0.8):
        centre = (left + int(wide * share), bottom - wheel)
        cv2.circle(canvas, centre, wheel, (26, 26, 28), -1)
        cv2.circle(canvas, centre, max(1, wheel // 2), (130, 130, 134), -1)


def _pallet(canvas: Image, sight: Sight, box: Box) -> None:
    left, top, right, bottom = box
    deck = bottom - max(3, (bottom - top) // 6)
    cv2.rectangle(canvas, (left, deck), (right, bottom), (72, 112, 146), -1)
    cv2.rectangle(canvas, (left + 2, top), (right - 2, deck), sight.actor.colour, -1)
    cv2.line(canvas, ((left + right) // 2, top), ((left + right) // 2, deck), (210, 216, 222), 2)
