"""Drawn people: a walking figure, and a head with shoulders. Sizes are in heads or faces, so they scale."""

from typing import Final

import cv2
import numpy as np

from edge_runtime.perception.detections import FloatArray
from edge_runtime.qualification.drawing import HEIGHT, WIDTH, Color, Point, ellipse, limb, shaded

Box = tuple[float, float, float, float]
"""x1, y1, x2, y2 in pixels of the canvas."""

_SKIN: Final = (120.0, 155.0, 205.0)
_HAIR: Final = (35.0, 45.0, 60.0)
_TROUSERS: Final = (90.0, 60.0, 40.0)
_SHOE: Final = (30.0, 30.0, 35.0)
_TORSO: Final = ((-0.68, 1.35), (0.68, 1.35), (0.58, 3.2), (0.62, 4.1), (-0.62, 4.1), (-0.58, 3.2))


def walker(canvas: FloatArray, crown: Point, height: float, stride: float, shirt: Color) -> Box:
    """A walking figure seven and a half heads tall.

    Args:
        canvas: painted on in place.
        crown: column and row of the top of the head.
        height: of the figure, in pixels.
        stride: 0 stands, 1 walks wide.
        shirt: its colour.
    """
    head = height / 7.5

    def at(dx: float, dy: float) -> Point:
        return crown[0] + dx * head, crown[1] + dy * head

    for side, light in ((-1, 0.75), (1, 1.0)):
        cloth = shaded(_TROUSERS, light)
        knee, foot = at(side * stride * 0.55, 5.6), at(side * stride * 1.05, 7.2)
        limb(canvas, at(side * 0.18, 3.7), knee, 0.72 * head, cloth)
        limb(canvas, knee, foot, 0.55 * head, cloth)
        limb(canvas, foot, (foot[0] + 0.35 * head, foot[1] + 0.12 * head), 0.33 * head, _SHOE)
    far = (at(0, 1.7), at(stride * 0.6 - 0.1, 2.8), at(stride * 0.8 + 0.1, 3.9))
    _arm(canvas, far, head, shaded(shirt, 0.7))
    torso = np.array([at(dx, dy) for dx, dy in _TORSO])
    cv2.fillPoly(canvas, [np.rint(torso).astype(np.int32)], shirt)
    for side in (-1, 1):
        ellipse(canvas, at(side * 0.6, 1.6), (0.3 * head, 0.32 * head), shirt)
    near = (at(0.45, 1.7), at(0.55 - stride * 0.3, 2.85), at(0.5 - stride * 0.9, 3.85))
    _arm(canvas, near, head, shaded(shirt, 0.85))
    ellipse(canvas, at(0, 1.1), (0.22 * head, 0.4 * head), shaded(_SKIN, 0.85))
    ellipse(canvas, at(0, 0.6), (0.42 * head, 0.6 * head), _SKIN, soft=2)
    ellipse(canvas, at(-0.04, 0.38), (0.46 * head, 0.42 * head), _HAIR, soft=2)
    reach = 0.36 + 1.05 * stride
    return (*at(-reach, 0), *at(reach, 7.5))


def _arm(canvas: FloatArray, joints: tuple[Point, Point, Point], head: float, cloth: Color) -> None:
    shoulder, elbow, hand = joints
    limb(canvas, shoulder, elbow, 0.42 * head, cloth)
    limb(canvas, elbow, hand, 0.36 * head, cloth)
    ellipse(canvas, hand, (0.2 * head, 0.22 * head), _SKIN)


def bust(canvas: FloatArray, center: Point, size: float) -> Box:
    """Head and shoulders, seen from the front.

    Args:
        canvas: painted on in place.
        center: of the face.
        size: about half the height of the face, in pixels.

    Returns:
        The box of the face, without the hair.
    """

    def at(dx: float, dy: float) -> Point:
        return center[0] + dx * size, center[1] + dy * size

    def radii(a: float, b: float) -> Point:
        return a * size, b * size

    ellipse(canvas, at(0, 2.6), radii(1.9, 1.1), (110, 70, 50), soft=3)
    ellipse(canvas, at(0, 1.2), radii(0.42, 0.8), shaded(_SKIN, 0.82), soft=3)
    ellipse(canvas, at(0, -0.18), radii(0.98, 1.22), _HAIR, soft=4)
    for side, light in ((-1, 0.8), (1, 0.75)):
        ellipse(canvas, at(side * 0.8, 0.05), radii(0.12, 0.25), shaded(_SKIN, light), soft=2)
    ellipse(canvas, at(0, 0.08), radii(0.78, 1.08), _lit_skin(center, size), soft=3)
    ellipse(canvas, at(0, -0.75), radii(0.82, 0.45), _HAIR, soft=6)
    for side in (-1, 1):
        _eye(canvas, at(side * 0.33, -0.08), size)
    ellipse(canvas, at(0.1, 0.2), radii(0.1, 0.32), shaded(_SKIN, 0.6), soft=12, opacity=0.35)
    ellipse(canvas, at(0, 0.38), radii(0.17, 0.11), shaded(_SKIN, 0.72), soft=6, opacity=0.5)
    for side in (-1, 1):
        ellipse(canvas, at(side * 0.085, 0.42), radii(0.045, 0.03), (50, 60, 90), opacity=0.8)
    ellipse(canvas, at(0, 0.68), radii(0.29, 0.1), (95, 95, 180), soft=2)
    ellipse(canvas, at(0, 0.665), radii(0.28, 0.018), (45, 40, 90))
    ellipse(canvas, at(0, 0.84), radii(0.2, 0.05), shaded(_SKIN, 0.65), soft=6, opacity=0.4)
    return (*at(-0.8, -0.9), *at(0.8, 1.16))


def _lit_skin(center: Point, size: float) -> FloatArray:
    """Skin that is lighter towards the upper left; flat skin is not taken for a face."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    away = np.hypot((x - center[0] + 0.25 * size) / size, (y - center[1] + 0.1 * size) / (1.3 * size))
    light: FloatArray = np.float32(1.08) - np.float32(0.28) * away[..., None]
    return light * np.array(_SKIN, np.float32)


def _eye(canvas: FloatArray, center: Point, size: float) -> None:
    x, y = center
    ellipse(canvas, center, (0.24 * size, 0.17 * size), shaded(_SKIN, 0.6), soft=10, opacity=0.5)
    ellipse(canvas, (x, y - 0.24 * size), (0.24 * size, 0.055 * size), (40, 50, 65), soft=2)
    ellipse(canvas, center, (0.165 * size, 0.085 * size), (235, 235, 235))
    ellipse(canvas, center, (0.08 * size, 0.085 * size), (50, 70, 90))
    ellipse(canvas, center, (0.042 * size, 0.045 * size), (10, 10, 10), soft=1)
    glint = (x - 0.02 * size, y - 0.03 * size)
    ellipse(canvas, glint, (0.018 * size, 0.018 * size), (255, 255, 255), soft=1)
    ellipse(canvas, (x, y - 0.08 * size), (0.18 * size, 0.03 * size), (40, 45, 55), opacity=0.9)
