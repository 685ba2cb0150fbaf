"""Multi-object tracking: detections of frame after frame become tracks with ids."""

from edge_runtime.perception.tracking.settings import TrackerSettings, settings_for
from edge_runtime.perception.tracking.tracker import Tracker

__all__ = ["Tracker", "TrackerSettings", "settings_for"]
