"""What a configuration leaves out follows the model."""

import pytest

from edge_runtime.config.node import TrackingConfig
from edge_runtime.perception.tracking import TrackerSettings, settings_for


@pytest.mark.parametrize(
    ("config", "score", "high", "low", "new"),
    [
        (TrackingConfig(), 0.6, 0.6, 0.1, 0.7),
        (TrackingConfig(), 0.25, 0.25, 0.1, 0.35),
        (TrackingConfig(), 0.05, 0.05, 0.05, 0.15),
        (TrackingConfig(), 0.97, 0.97, 0.1, 1.0),
        (TrackingConfig(high=0.5), 0.25, 0.5, 0.1, 0.6),
        (TrackingConfig(high=0.5, new=0.9, low=0.2), 0.25, 0.5, 0.2, 0.9),
    ],
)
def test_thresholds(config: TrackingConfig, score: float, high: float, low: float, new: float) -> None:
    found = settings_for(config, score)
    assert (found.high, found.low) == (high, low)
    assert found.new == pytest.approx(new)


def test_times_are_the_configured_ones() -> None:
    found = settings_for(TrackingConfig(confirm=4, lost=1.5, coast=0), 0.6)
    assert (found.confirm, found.lost, found.coast) == (4, 1.5, 0)


def test_the_published_settings_are_what_a_tracker_takes_by_itself() -> None:
    assert TrackerSettings() == settings_for(TrackingConfig(), 0.6)
