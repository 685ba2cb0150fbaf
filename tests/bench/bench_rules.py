"""Time of one step of six rules over many tracks, and of the desk around them: `python tests/bench/bench_rules.py`.

Budget: all rules of a camera together at most 0.25 ms a frame for 20 tracks and 6 rules on one core.
"""

import argparse
import statistics
import time

import numpy as np

from edge_runtime.clock import SystemClock
from edge_runtime.config.rules import (
    AbsenceRule,
    CountRule,
    DwellRule,
    LineRule,
    OccupancyRule,
    RuleConfig,
    ZoneRule,
)
from edge_runtime.events import EventDesk
from edge_runtime.events.rules import make_rule
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Timeline
from edge_runtime.perception.detections import Tracks
from edge_runtime.sources.frame import Frame

ZONE = ((0.1, 0.2), (0.6, 0.1), (0.9, 0.5), (0.7, 0.9), (0.5, 0.6), (0.2, 0.9))
LABELS = ("person", "bicycle", "car")
RULES: tuple[RuleConfig, ...] = (
    ZoneRule(name="zone", kind="zone", polygon=ZONE, on=("enter", "leave"), labels=("person", "car")),
    OccupancyRule(name="occupancy", kind="occupancy", polygon=ZONE, at_least=4, clear_at=2),
    LineRule(name="line", kind="line", line=((0.1, 0.5), (0.9, 0.6)), labels=("person",)),
    DwellRule(name="dwell", kind="dwell", polygon=ZONE, seconds=3, min_height=0.05),
    AbsenceRule(name="absence", kind="absence", polygon=ZONE, seconds=3, min_confidence=0.4),
    CountRule(name="count", kind="count", polygon=ZONE, at_least=30, window=60),
)


def walks(tracks: int, frames: int, seed: int) -> list[Tracks]:
    """Random walks of `tracks` boxes over a 768x576 picture."""
    rng = np.random.default_rng(seed)
    position = rng.uniform((60, 60), (700, 500), (tracks, 2))
    found = []
    for _ in range(frames):
        position = np.clip(position + rng.normal(0, 6, position.shape), (40, 80), (728, 576))
        above, below = np.array([20, 60]), np.array([20, 0])
        xyxy = np.concatenate([position - above, position + below], axis=1).astype(np.float32)
        found.append(
            Tracks(
                np.arange(1, tracks + 1),
                xyxy,
                rng.uniform(0.3, 1, tracks).astype(np.float32),
                rng.integers(0, 3, tracks),
                rng.uniform(0, 1, tracks) > 0.05,
            )
        )
    return found


def report(name: str, seconds: list[float]) -> None:
    """One line of the table."""
    cuts = statistics.quantiles(seconds, n=100)
    print(
        f"{name:<28} p50 {cuts[49] * 1e3:7.3f} ms   p95 {cuts[94] * 1e3:7.3f} ms   p99 {cuts[98] * 1e3:7.3f} ms"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=2000)
    frames = parser.parse_args().frames
    for tracks in (0, 5, 20, 100):
        scenes = walks(tracks, frames, seed=1)
        machines = [make_rule(rule, LABELS) for rule in RULES]
        timeline, spent = Timeline(), []
        for index, seen in enumerate(scenes):
            start = time.perf_counter()
            moment = timeline.advance(epoch=0, sequence=index, capture_ns=index, media_ns=index * 33_333_333)
            assert moment is not None
            scene = Scene(moment, 768, 576, seen)
            for machine in machines:
                machine.step(scene)
            spent.append(time.perf_counter() - start)
        report(f"six rules, {tracks} tracks", spent)
        clock = SystemClock()
        desk = EventDesk("bench", RULES, LABELS, config_digest="sha256:" + "0" * 64, clock=clock)
        image, spent, events = np.zeros((576, 768, 3), np.uint8), [], 0
        for index, seen in enumerate(scenes):
            frame = Frame(image, "bench", 0, index, clock.monotonic_ns(), index * 33_333_333)
            start = time.perf_counter()
            events += len(desk.observe(frame, seen))
            spent.append(time.perf_counter() - start)
        report(f"desk, {tracks} tracks", spent)
        print(f"    {events} events in {frames} frames")


if __name__ == "__main__":
    main()
