"""What a tracker is told: scores at which detections count, and for how long a track lives."""

from dataclasses import dataclass

from edge_runtime.config.node import TrackingConfig

_BEGIN_ABOVE_HIGH = 0.1
"""A new track needs this much more than `high`: ByteTrack's published `track_thresh + 0.1`."""


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """ByteTrack's published settings unless given; see docs/decisions/0040-tracker.md.

    Attributes:
        high, low: detections at or above `high` are matched first, those between `low` and `high` second.
        new: a new track needs at least this score.
        confirm: detections needed before a track counts.
        lost: seconds that a track may go unseen before it is forgotten.
        coast: seconds that an unseen track is still reported, at its predicted place.
    """

    high: float = 0.6
    low: float = 0.1
    new: float = 0.7
    confirm: int = 2
    lost: float = 3.0
    coast: float = 0.5


def settings_for(config: TrackingConfig, score: float) -> TrackerSettings:
    """The settings of one camera.

    Args:
        config: as configured; what it leaves out follows the model.
        score: at which the model's detections count. Detectors are calibrated differently: the best person that
            one scores .9 another scores .5, and would never begin a track at fixed thresholds.
    """
    high = score if config.high is None else config.high
    new = min(1.0, high + _BEGIN_ABOVE_HIGH) if config.new is None else config.new
    return TrackerSettings(high, min(config.low, high), new, config.confirm, config.lost, config.coast)
