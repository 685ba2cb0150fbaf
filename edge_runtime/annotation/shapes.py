"""What the rules draw on a picture: polygons and lines in pixels of one frame size."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from edge_runtime.annotation.lettering import paste, text_tile
from edge_runtime.annotation.palette import BLACK, CALM, GREY, Color
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.rules import Anchor, LineRule, RuleConfig
from edge_runtime.geometry import Float64Array, anchor_points, to_pixels
from edge_runtime.perception.detections import FloatArray
from edge_runtime.sources.frame import Image

Points = npt.NDArray[np.int32]

_TINT = 0.22


def anchor_pixels(xyxy: FloatArray, anchor: Anchor) -> list[tuple[int, int]]:
    """The pixel of each box (N, 4) that stands for the object."""
    return [(x, y) for x, y in _whole(anchor_points(xyxy.astype(np.float64), anchor)[:2].T).tolist()]


def _whole(points: Float64Array) -> Points:
    return np.rint(points).astype(np.int32)


def shown_anchors(rules: Sequence[RuleConfig]) -> tuple[Anchor, ...]:
    """The anchors that are tested against a zone or a line, each once."""
    tested = [rule for rule in rules if isinstance(rule, LineRule) or rule.polygon is not None]
    return tuple(dict.fromkeys(rule.anchor for rule in tested))


@dataclass(frozen=True, slots=True)
class RuleShape:
    """A polygon or a line in pixels, and the rules that watch it."""

    rules: tuple[str, ...]
    points: Points
    is_line: bool


def rule_shapes(rules: Sequence[RuleConfig], height: int, width: int) -> tuple[RuleShape, ...]:
    """The shapes of the rules that have one, each once; a rule about the whole frame has none."""
    shapes: dict[tuple[bool, bytes], RuleShape] = {}
    for rule in rules:
        is_line = isinstance(rule, LineRule)
        corners = rule.line if isinstance(rule, LineRule) else rule.polygon
        if corners is None:
            continue
        points = _whole(to_pixels(corners, rule.units, width, height))
        key = (is_line, points.tobytes())
        before = shapes[key].rules if key in shapes else ()
        shapes[key] = RuleShape((*before, rule.name), points, is_line)
    return tuple(shapes.values())


def mask_shapes(masks: Sequence[PrivacyMask], height: int, width: int) -> tuple[Points, ...]:
    """The privacy masks' polygons in pixels."""
    return tuple(_whole(to_pixels(mask.polygon, mask.units, width, height)) for mask in masks)


def draw_masks(image: Image, masks: Sequence[Points]) -> None:
    """Blackens each mask in place and outlines it, so that a blank region is seen to be meant.

    The source has blacked them out already, before inference; doing it again costs little and keeps the
    promise even for a picture that came another way.
    """
    for points in masks:
        cv2.fillPoly(image, [points], BLACK)
        cv2.polylines(image, [points], isClosed=True, color=GREY, thickness=1)


def draw_shape(image: Image, shape: RuleShape, name: str, active: Color | None, pixels: int) -> None:
    """Draws a zone or a line in place with its name: thin and calm, or thick and tinted while `active`."""
    color = active or CALM
    thickness = max(1, round(pixels / (5 if active else 9)))
    if shape.is_line:
        _draw_line(image, shape.points, color, thickness, pixels)
    else:
        if active:
            _tint(image, shape.points, color)
        cv2.polylines(image, [shape.points], isClosed=True, color=BLACK, thickness=thickness + 2)
        cv2.polylines(image, [shape.points], isClosed=True, color=color, thickness=thickness)
    tile = text_tile(name, pixels, color)
    x, y = (int(value) for value in shape.points[0])
    if not shape.is_line:  # the lower edge of a zone: the upper one is where boxes have their labels
        x, y = int(shape.points[:, 0].min()), int(shape.points[:, 1].max()) - tile.shape[0]
    paste(image, tile, x, y)


def _draw_line(image: Image, points: Points, color: Color, thickness: int, pixels: int) -> None:
    """A to B, with an arrow at its middle pointing to the right hand of someone who looks from A to B."""
    (ax, ay), (bx, by) = points.tolist()
    cv2.line(image, (ax, ay), (bx, by), BLACK, thickness + 2)
    cv2.line(image, (ax, ay), (bx, by), color, thickness)
    length = float(np.hypot(bx - ax, by - ay))
    if length < 1:
        return
    middle = ((ax + bx) // 2, (ay + by) // 2)
    reach = 1.5 * pixels / length
    tip = (round(middle[0] - (by - ay) * reach), round(middle[1] + (bx - ax) * reach))
    cv2.arrowedLine(image, middle, tip, color, thickness, tipLength=0.5)


def _tint(image: Image, points: Points, color: Color) -> None:
    """Mixes `color` into the polygon, on its bounding box only."""
    height, width = image.shape[:2]
    left, top = np.clip(points.min(axis=0), 0, (width, height)).tolist()
    right, bottom = np.clip(points.max(axis=0) + 1, 0, (width, height)).tolist()
    if right <= left or bottom <= top:
        return
    region = image[top:bottom, left:right]
    painted = region.copy()
    cv2.fillPoly(painted, [points - np.array([left, top], np.int32)], color)
    cv2.addWeighted(painted, _TINT, region, 1 - _TINT, 0, dst=region)
