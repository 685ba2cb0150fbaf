"""Painting on a float canvas: gradients and soft ellipses that look the same with every OpenCV."""

from typing import Final

import cv2
import numpy as np

from edge_runtime.perception.detections import FloatArray

HEIGHT: Final = 480
WIDTH: Final = 640

Color = tuple[float, float, float]
"""Blue, green, red in 0..255."""

Point = tuple[float, float]
"""Column and row in pixels."""


def gradient(top: Color, bottom: Color) -> FloatArray:
    """A canvas, (480, 640, 3) float32, whose colour runs from top to bottom."""
    ramp = np.linspace(0, 1, HEIGHT, dtype=np.float32)[:, None, None]
    column = np.array(top, np.float32) * (1 - ramp) + np.array(bottom, np.float32) * ramp
    return np.repeat(column, WIDTH, axis=1)


def ellipse(
    canvas: FloatArray,
    center: tuple[float, float],
    radii: tuple[float, float],
    color: Color | FloatArray,
    *,
    soft: float = 1.5,
    opacity: float = 1.0,
) -> None:
    """Blend an ellipse whose border fades over `soft` pixels; a colour may be a map over the canvas."""
    left, top = (max(0, int(c - r)) for c, r in zip(center, radii, strict=True))
    right, bottom = (int(c + r) + 2 for c, r in zip(center, radii, strict=True))
    part = canvas[top:bottom, left:right]
    y, x = np.mgrid[top : top + part.shape[0], left : left + part.shape[1]].astype(np.float32)
    distance = np.hypot((x - center[0]) / radii[0], (y - center[1]) / radii[1])
    mask = np.clip((1 - distance) * min(radii) / soft, 0, 1)[..., None] * np.float32(opacity)
    paint = np.asarray(color, np.float32)
    if paint.ndim == 3:
        paint = paint[top:bottom, left:right]
    part += mask * (paint - part)


def limb(canvas: FloatArray, start: Point, end: Point, width: float, color: Color) -> None:
    """A thick stroke with round ends."""
    first, last = (round(start[0]), round(start[1])), (round(end[0]), round(end[1]))
    cv2.line(canvas, first, last, color, max(2, round(width)))


def shaded(color: Color, light: float) -> Color:
    """The colour in less light."""
    return (color[0] * light, color[1] * light, color[2] * light)
