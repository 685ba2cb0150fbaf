"""Where an event comes from: the settings that a rule, or the camera itself, gives to its events."""

from dataclasses import dataclass
from enum import Enum

from edge_runtime.config.base import Point
from edge_runtime.config.rules import LineRule, RuleConfig, Units
from edge_runtime.protocol import DataClass, Severity

CAMERA_RULE = "@camera"
"""Rule name of what the camera says of itself; no configured name begins like this."""


class Unobserved(Enum):
    """Why a camera is not being watched; the value is the kind of the event that says so.

    None of these is "nothing seen": rules stand still until frames are evaluated again.
    """

    DARK = "camera_dark"
    FROZEN = "camera_frozen"
    STALLED = "camera_stalled"
    LOST = "camera_lost"
    INFERENCE_FAILED = "inference_failed"
    MODEL_FAULT = "model_fault"


@dataclass(frozen=True, slots=True)
class Origin:
    """Settings of all events of one rule.

    Attributes:
        rule: its name.
        kinds: event kinds that it may make, beside `rate_capped`.
        severity, data_class: of its events.
        deadline_ms, ttl_s: as the rule states them.
        evidence: whether a crop is kept.
        polygon, units: the zone, for a crop of an event that is about no single track.
    """

    rule: str
    kinds: tuple[str, ...]
    severity: Severity
    data_class: DataClass
    deadline_ms: float
    ttl_s: float
    evidence: bool = False
    polygon: tuple[Point, ...] | None = None
    units: Units = "relative"


def classify(camera: DataClass | None, rule: DataClass | None) -> DataClass:
    """How sensitive an event is: the camera's label, raised by the rule's, never lowered.

    A camera without a label makes everything `unknown`, even where a rule has one: a zone is a part of what
    the camera sees, so its label says nothing about the rest of a crop.
    """
    if camera is None:
        return DataClass.UNKNOWN
    return camera if rule is None else camera.at_least(rule)


def of_rule(rule: RuleConfig, camera: DataClass | None) -> Origin:
    """The settings of a configured rule on a camera with this label."""
    zone = None if isinstance(rule, LineRule) else rule.polygon
    return Origin(
        rule.name,
        (rule.kind,),
        rule.severity,
        classify(camera, rule.data_class),
        rule.deadline * 1000,
        rule.ttl,
        rule.evidence,
        zone,
        "relative" if isinstance(rule, LineRule) else rule.units,
    )


def of_camera(camera: DataClass | None) -> Origin:
    """The settings of what a camera with this label says of itself."""
    return Origin(
        CAMERA_RULE,
        tuple(reason.value for reason in Unobserved),
        Severity.WARNING,
        classify(camera, None),
        deadline_ms=1000.0,
        ttl_s=86_400.0,
    )
