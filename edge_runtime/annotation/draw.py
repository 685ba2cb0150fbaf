"""Draws on a copy of a frame what the runtime saw and what its rules made of it.

Order: privacy masks, zones and lines, trails, boxes with label, id and the point that rules test, then text.
Labels are copied from rendered tiles: with 20 objects on 640x480 a whole frame takes about a millisecond.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from edge_runtime.annotation.captions import event_caption
from edge_runtime.annotation.happenings import Happenings
from edge_runtime.annotation.lettering import fit_text, paste, text_pixels, text_tile, write_changing
from edge_runtime.annotation.palette import BLACK, WHITE, Color, readable_on, severity_color, track_color
from edge_runtime.annotation.shapes import (
    Points,
    RuleShape,
    anchor_pixels,
    draw_masks,
    draw_shape,
    mask_shapes,
    rule_shapes,
    shown_anchors,
)
from edge_runtime.annotation.trails import Trails
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.rules import CountRule, LineRule, RuleConfig, ZoneRule
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import EventRecord
from edge_runtime.sources.frame import Frame, Image

_STATUS: Color = (40, 40, 40)
_NOTICE: Color = (60, 20, 220)


class Annotator:
    """Draws the frames of one camera, in order; remembers what is going on from the events it is given.

    Args:
        labels: the model's label map.
        rules: the camera's rules; their zones and lines are drawn.
        masks: the camera's privacy masks.
        trail_s: length of the trail behind each track in seconds; 0 draws none.
        linger_s: how long text about an event stays, on the source's own timeline.
    """

    def __init__(
        self,
        labels: Sequence[str],
        rules: Sequence[RuleConfig] = (),
        masks: Sequence[PrivacyMask] = (),
        *,
        trail_s: float = 0.0,
        linger_s: float = 2.0,
    ) -> None:
        self._labels = tuple(labels)
        self._rules = tuple(rules)
        self._masks = tuple(masks)
        momentary = (rule.name for rule in rules if isinstance(rule, ZoneRule | LineRule | CountRule))
        self._happenings = Happenings(momentary, linger_s)
        self._anchors = shown_anchors(rules)
        self._trails = Trails(trail_s, (*self._anchors, "bottom_center")[0]) if trail_s > 0 else None
        self._size: tuple[int, int] | None = None
        self._shapes: tuple[RuleShape, ...] = ()
        self._mask_points: tuple[Points, ...] = ()
        self._epoch: int | None = None

    def draw(
        self,
        frame: Frame,
        tracks: Tracks | None,
        events: Sequence[EventRecord] = (),
        notice: str | None = None,
    ) -> Image:
        """A new image of the frame's size with everything drawn on it; the frame itself is not touched.

        Args:
            frame: the frame that was looked at.
            tracks: what is followed in it; None when there is no answer for this frame (a failed or late
                inference, a dark picture), which is drawn as such and never as an empty scene.
            events: what the rules said about this frame.
            notice: why there is no answer, or anything else that a viewer must know.

        Returns:
            (H, W, 3) uint8, BGR.
        """
        image: Image = frame.image.copy()
        self._follow(frame)
        self._happenings.add(events, frame.media_ns)
        pixels = text_pixels(frame.height, frame.width)
        draw_masks(image, self._mask_points)
        self._draw_shapes(image, frame.media_ns, pixels)
        if tracks is not None:
            if self._trails is not None:
                self._trails.add(tracks, frame.media_ns)
                self._trails.draw(image, max(1, pixels // 12))
            self._draw_boxes(image, tracks, frame.media_ns, pixels)
        self._draw_text(image, frame, notice or _condition(frame, tracks), pixels)
        return image

    def _follow(self, frame: Frame) -> None:
        if (frame.height, frame.width) != self._size:
            self._size = (frame.height, frame.width)
            self._shapes = rule_shapes(self._rules, frame.height, frame.width)
            self._mask_points = mask_shapes(self._masks, frame.height, frame.width)
        if frame.epoch != self._epoch:
            self._epoch = frame.epoch
            self._happenings.restart()
            if self._trails is not None:
                self._trails.restart()

    def _draw_shapes(self, image: Image, media_ns: int, pixels: int) -> None:
        going_on = self._happenings.severity_by_rule(media_ns)
        for shape in self._shapes:
            name = next((rule for rule in shape.rules if rule in going_on), None)
            active = None if name is None else severity_color(going_on[name])
            draw_shape(image, shape, name or shape.rules[0], active, pixels)

    def _draw_boxes(self, image: Image, tracks: Tracks, media_ns: int, pixels: int) -> None:
        going_on = self._happenings.severity_by_track(media_ns)
        thick = max(2, pixels // 6)
        corners = np.rint(tracks.xyxy).astype(np.int64).tolist()
        rows = zip(
            corners, tracks.track_id.tolist(), tracks.label.tolist(), tracks.seen.tolist(), strict=True
        )
        for (x1, y1, x2, y2), track_id, label, seen in rows:
            color = track_color(track_id)
            outline = severity_color(going_on[track_id]) if track_id in going_on else color
            draw_box(image, (x1, y1, x2, y2), outline, thick if seen else 1)
            name = self._labels[label] if 0 <= label < len(self._labels) else f"label {label}"
            tile = text_tile(f"{name} #{track_id}", pixels, color)
            above = y1 - tile.shape[0]
            paste(image, tile, x1, above if above >= 0 else y1)
        for anchor in self._anchors:
            for point in anchor_pixels(tracks.xyxy, anchor):
                cv2.circle(image, point, thick + 2, BLACK, cv2.FILLED)
                cv2.circle(image, point, thick + 1, WHITE, cv2.FILLED)

    def _draw_text(self, image: Image, frame: Frame, notice: str | None, pixels: int) -> None:
        width = image.shape[1]
        status = f" {frame.source}  {frame.media_ns / 1e9:.1f} s  frame {frame.sequence}"
        if frame.epoch:
            status += f"  epoch {frame.epoch}"
        top = write_changing(image, status, pixels, _STATUS)
        if notice:
            tile = text_tile(fit_text(notice, pixels, width), pixels, _NOTICE)
            paste(image, tile, 0, top)
            top += tile.shape[0]
        bottom = image.shape[0]
        for event in self._happenings.recent(frame.media_ns):
            text = fit_text(event_caption(event), pixels, width)
            tile = text_tile(text, pixels, severity_color(event.severity))
            bottom -= tile.shape[0]
            if bottom < top:
                break
            paste(image, tile, 0, bottom)


def draw_box(image: Image, box: tuple[int, int, int, int], color: Color, thickness: int) -> None:
    """A rectangle's outline in place, inside a hair line of contrast so that it shows on any ground.

    Nested outlines of one pixel: OpenCV draws each in 3 us and takes 13 us for one of two pixels. The
    corners are inclusive pixels and may lie outside of the image.
    """
    x1, y1, x2, y2 = box
    cv2.rectangle(image, (x1 - 1, y1 - 1), (x2 + 1, y2 + 1), readable_on(color), 1)
    for inset in range(min(thickness, max(1, (x2 - x1) // 2), max(1, (y2 - y1) // 2))):
        cv2.rectangle(image, (x1 + inset, y1 + inset), (x2 - inset, y2 - inset), color, 1)


def _condition(frame: Frame, tracks: Tracks | None) -> str | None:
    """What the frame itself says is wrong with it."""
    if frame.dark:
        return "camera dark"
    if frame.frozen:
        return "picture frozen"
    return "not evaluated" if tracks is None else None
