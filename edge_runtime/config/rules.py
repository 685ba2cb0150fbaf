"""Rules: what counts as an event. Every time below is measured time, never frames over a nominal fps."""

import math
from datetime import time
from typing import Annotated, Literal

from pydantic import Field, field_validator

from edge_runtime.config.base import (
    ClockTime,
    ConfigModel,
    Flag,
    Fraction,
    Integer,
    Label,
    Name,
    Point,
    PositiveSeconds,
    Seconds,
)
from edge_runtime.protocol import DataClass, Severity

Units = Literal["relative", "pixels"]
"""`relative`: 0..1 of the frame's width and height; `pixels`: of the frame after rotation."""

Anchor = Literal["bottom_center", "center", "top_center", "bottom_left", "bottom_right"]
"""Which point of a box stands for the object."""

Polygon = tuple[Point, ...]


def check_polygon(points: Polygon) -> Polygon:
    """A polygon with an area, or a ValueError that says what is missing."""
    if len(points) < 3:
        raise ValueError("needs at least 3 points")
    (x0, y0), (x1, y1) = points[0], max(points, key=lambda point: math.dist(point, points[0]))
    extent = math.dist((x0, y0), (x1, y1))
    # Twice the area of the triangle with the longest side; rounding leaves about 1e-16 of the extent squared.
    aside = max(abs((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) for x, y in points)
    if aside <= 1e-12 * extent * extent:
        raise ValueError("has no area: its points lie on one line")
    return points


class Schedule(ConfigModel):
    """When a rule is active, on the device's local wall clock; an unsynced clock leaves it active.

    Attributes:
        days: subset of mon..sun; empty means every day.
        start, end: HH:MM; an end before the start runs past midnight.
    """

    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = ()
    start: ClockTime = time(0, 0)
    end: ClockTime = time(0, 0)


class _Rule(ConfigModel):
    """What every rule has.

    Attributes:
        name: of this rule within its camera; events and metrics carry it.
        labels: which labels count; empty means all.
        min_confidence: of the detection, beyond the model's own threshold.
        min_height, max_height: of the box, as a fraction of the frame's height.
        min_area, max_area: of the box, as a fraction of the frame's area.
        anchor: the point of the box that is tested against zones and lines.
        severity: how much the event matters.
        data_class: label of this zone; may only be more careful than the camera's.
        deadline: seconds from capture to event; later is marked late and must not be acted on.
        ttl: seconds after capture at which consumers drop the event.
        cooldown: seconds after an event in which the same cause (track or rule) is quiet.
        max_per_minute: rate cap; beyond it one summarising event counts what was suppressed.
        schedule: when the rule is active; without one always.
        evidence: keep a bounded crop in the device's ring.
    """

    name: Name
    labels: tuple[Label, ...] = ()
    min_confidence: Fraction = 0.0
    min_height: Fraction = 0.0
    max_height: Fraction = 1.0
    min_area: Fraction = 0.0
    max_area: Fraction = 1.0
    anchor: Anchor = "bottom_center"
    severity: Severity = Severity.NOTICE
    data_class: DataClass | None = None
    deadline: PositiveSeconds = 1.0
    ttl: PositiveSeconds = 86_400.0
    cooldown: Seconds = 0.0
    max_per_minute: Annotated[Integer, Field(ge=1, le=6000)] = 60
    schedule: Schedule | None = None
    evidence: Flag = False


class _Zoned(_Rule):
    """A rule about a polygon; without one it is about the whole frame.

    Attributes:
        polygon: the zone, at least 3 points [x, y].
        units: of the polygon: `relative` runs from 0 to 1 of the frame's width and height, `pixels` counts
            pixels of the frame after rotation.
    """

    polygon: Polygon | None = None
    units: Units = "relative"

    @field_validator("polygon")
    @classmethod
    def _polygon(cls, value: Polygon | None) -> Polygon | None:
        return None if value is None else check_polygon(value)


class ZoneRule(_Zoned):
    """A track enters or leaves a zone; `debounce` seconds on the new side make it true.

    Attributes:
        kind: `zone`.
        on: which of the two is an event: `enter`, `leave` or both.
        debounce: seconds a track must stay on the new side.
    """

    kind: Literal["zone"]
    on: Annotated[tuple[Literal["enter", "leave"], ...], Field(min_length=1)] = ("enter",)
    debounce: Seconds = 0.3


class OccupancyRule(_Zoned):
    """At least `at_least` objects for `hold` seconds start it; at most `clear_at` for `hold` end it.

    Attributes:
        kind: `occupancy`.
        at_least: so many objects in the zone at once start the event.
        clear_at: so few end it; less than `at_least`, so that one flickering object is one event.
        hold: seconds that either must last.
    """

    kind: Literal["occupancy"]
    at_least: Annotated[Integer, Field(ge=1)] = 1
    clear_at: Annotated[Integer, Field(ge=0)] = 0
    hold: Seconds = 0.5


class LineRule(_Rule):
    """A track crosses a line, with a debounce on both sides.

    Attributes:
        kind: `line`.
        line: from A to B; standing at A and looking to B, `left_to_right` crosses to the right hand.
        units: of the line: `relative` runs from 0 to 1 of the frame's width and height, `pixels` counts pixels
            of the frame after rotation.
        direction: which crossings are events.
        dead_band: half width around the line in which the side does not change, fraction of frame height.
        debounce: seconds a track must stay on the new side.
    """

    kind: Literal["line"]
    line: tuple[Point, Point]
    units: Units = "relative"
    direction: Literal["both", "left_to_right", "right_to_left"] = "both"
    dead_band: Fraction = 0.01
    debounce: Seconds = 0.2

    @field_validator("line")
    @classmethod
    def _has_length(cls, value: tuple[Point, Point]) -> tuple[Point, Point]:
        if value[0] == value[1]:
            raise ValueError("needs two different points")
        return value


class DwellRule(_Zoned):
    """One track stays in the zone for `seconds`; ends when it leaves for `grace` seconds.

    Attributes:
        kind: `dwell`.
        seconds: how long the track must stay.
        grace: absences up to this many seconds do not end the stay.
    """

    kind: Literal["dwell"]
    seconds: PositiveSeconds
    grace: Seconds = 0.5


class AbsenceRule(_Zoned):
    """Nothing that counts is in the zone for `seconds`; ends when something is back for `grace` seconds.

    Only frames that were evaluated count: while the camera is dark, frozen or silent the timer stands still.

    Attributes:
        kind: `absence`.
        seconds: how long nothing may be there.
        grace: seconds that something must be back to end the event.
    """

    kind: Literal["absence"]
    seconds: PositiveSeconds
    grace: Seconds = 0.3


class CountRule(_Zoned):
    """At least `at_least` different tracks were in the zone within `window` seconds.

    Attributes:
        kind: `count`.
        at_least: so many different tracks are an event.
        window: length of the sliding window, in seconds.
    """

    kind: Literal["count"]
    at_least: Annotated[Integer, Field(ge=1)]
    window: PositiveSeconds


RuleConfig = Annotated[
    ZoneRule | OccupancyRule | LineRule | DwellRule | AbsenceRule | CountRule,
    Field(discriminator="kind"),
]
