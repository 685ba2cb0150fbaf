"""One camera: its frames, what must not be seen in them, how tracks are formed, and what counts."""

from typing import Annotated

from pydantic import Field, field_validator

from edge_runtime.config.base import ConfigModel, Fraction, Integer, Name, PositiveSeconds, Seconds
from edge_runtime.config.rules import Polygon, RuleConfig, Units, check_polygon
from edge_runtime.config.source import SourceConfig
from edge_runtime.protocol import DataClass


class PrivacyMask(ConfigModel):
    """A polygon blacked out right after decoding, before inference, evidence and annotation.

    Attributes:
        polygon: at least 3 points [x, y].
        units: of the polygon: `relative` runs from 0 to 1 of the frame's width and height, `pixels` counts
            pixels of the frame after rotation.
    """

    polygon: Polygon
    units: Units = "relative"

    @field_validator("polygon")
    @classmethod
    def _polygon(cls, value: Polygon) -> Polygon:
        return check_polygon(value)


class TrackingConfig(ConfigModel):
    """ByteTrack-kind association.

    Attributes:
        high: detections at or above this are matched first; the model's own score threshold when left out.
        low: detections between this and `high` are matched second, to tracks that the first left over.
        new: a new track needs at least this score; 0.1 above `high` when left out.
        confirm: detections needed before a track counts.
        lost: seconds that a track may go unseen before it is forgotten.
        coast: seconds that an unseen track is still reported, at its predicted place, so that a missed detection
            does not empty a zone; one missed frame is bridged however long the frame interval; 0 turns it off.
    """

    high: Fraction | None = None
    low: Fraction = 0.1
    new: Fraction | None = None
    confirm: Annotated[Integer, Field(ge=1, le=100)] = 2
    lost: PositiveSeconds = 3.0
    coast: Seconds = 0.5


class CameraConfig(ConfigModel):
    """One camera: where its frames come from, what may be seen, what counts.

    Attributes:
        source: where its frames come from; `kind` says which fields it takes.
        model: name of one of `models`.
        masks: what is blacked out before anything looks at a frame.
        tracking: how detections become tracks.
        rules: what counts as an event; rule names differ within a camera.
        data_class: how sensitive what it sees is; without it everything is `unknown`, handled as restricted.
    """

    source: SourceConfig
    model: Name
    data_class: DataClass | None = None
    masks: tuple[PrivacyMask, ...] = ()
    tracking: TrackingConfig = TrackingConfig()
    rules: tuple[RuleConfig, ...] = ()
