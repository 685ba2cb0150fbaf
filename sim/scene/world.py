"""Who is where at a time: the truth that a picture is drawn from, and that detections are held against."""

import math
from dataclasses import dataclass

import numpy as np

from sim.scenario.records import World

WIDTH, HEIGHT = 320, 240
HORIZON = 0.38
"""Of the height; the ground begins below it."""

LABELS = ("person", "car", "pallet")

_BELT = (0.80, 0.90)
"""The pallet line, of the height."""


@dataclass(frozen=True, slots=True)
class Actor:
    """One thing in the world.

    Attributes:
        label: index into `LABELS`.
        lane: how near its way is, 0 at the horizon, 1 at the camera.
        begins: seconds after which it first comes.
        speed: picture widths a second; its sign is the direction.
        pause: seconds between two passes.
        colour: blue, green, red.
        size: about 1.
    """

    label: int
    lane: float
    begins: float
    speed: float
    pause: float
    colour: tuple[int, int, int]
    size: float


@dataclass(frozen=True, slots=True)
class Sight:
    """An actor in the picture.

    Attributes:
        actor: which.
        box: left, top, right, bottom in pixels; it may reach over the edge.
        phase: of its steps, radians.
    """

    actor: Actor
    box: tuple[float, float, float, float]
    phase: float

    @property
    def visible(self) -> bool:
        """Whether enough of it is within the picture for anybody to see it."""
        left, _, right, _ = self.box
        shown = min(right, WIDTH) - max(left, 0.0)
        return shown >= 0.5 * (right - left)


def actors(world: World) -> tuple[Actor, ...]:
    """Everybody in the world, the farthest first."""
    rng = np.random.default_rng(world.seed)

    def colour() -> tuple[int, int, int]:
        blue, green, red = (int(value) for value in rng.integers(40, 220, 3))
        return blue, green, red

    found = []
    for label, number in ((0, world.people), (1, world.vehicles), (2, world.pallets)):
        for index in range(number):
            speed = float(rng.uniform(*((0.05, 0.12), (0.15, 0.35), (0.06, 0.06))[label]))
            sign = 1.0 if label == 2 or rng.random() < 0.5 else -1.0
            found.append(
                Actor(
                    label,
                    float(rng.uniform(*((0.25, 0.7), (0.1, 0.35), (0.9, 0.9))[label])),
                    index * 4.5 if label == 2 else float(rng.uniform(0.0, 6.0)),
                    sign * speed,
                    0.0 if label == 2 else float(rng.uniform(0.0, 3.0)),
                    colour(),
                    float(rng.uniform(0.85, 1.15)),
                )
            )
    return tuple(sorted(found, key=lambda actor: actor.lane))


def sights(who: tuple[Actor, ...], seconds: float) -> list[Sight]:
    """Where everybody is, the farthest first; who is out of the picture is left out."""
    found = []
    for actor in who:
        way = 1.4  # picture widths from one side, out of sight, to the other
        period = way / abs(actor.speed) + actor.pause
        since = (seconds - actor.begins) % period
        if seconds < actor.begins or since > way / abs(actor.speed):
            continue
        along = -0.2 + since * abs(actor.speed)
        across = along if actor.speed > 0 else 1.0 - along
        sight = Sight(actor, _box(actor, across), seconds * 7.0)
        if sight.box[0] < WIDTH and sight.box[2] > 0:
            found.append(sight)
    return found


def _box(actor: Actor, across: float) -> tuple[float, float, float, float]:
    foot = HEIGHT * (HORIZON + (0.97 - HORIZON) * actor.lane)
    if actor.label == 2:
        foot = HEIGHT * (_BELT[0] + 0.01)
    near = 0.25 + actor.lane
    tall = actor.size * near * (64.0, 44.0, 26.0)[actor.label]
    wide = tall * (0.42, 2.1, 1.5)[actor.label]
    centre = across * WIDTH
    return centre - wide / 2, foot - tall, centre + wide / 2, foot


def step_of(sight: Sight) -> float:
    """How far the legs are apart, -1 to 1."""
    return math.sin(sight.phase)
