"""Time of one step of six rules over many tracks, and of the desk around them: `python tests/bench/bench_rules.py`.

Times are CPU time of the thread, so that waiting for other work on the machine is not counted in. Budget: all
rules of a camera together at most 0.25 ms a frame for 20 tracks and 6 rules on one core.
"""

import argparse
import statistics
import time
from collections.abc import Callable

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


def rules(zone: Callable[[int], tuple[tuple[float, float], ...]]) -> tuple[RuleConfig, ...]:
    """Six rules, the n-th on `zone(n)`."""
    return (
        ZoneRule(name="zone", kind="zone", polygon=zone(0), on=("enter", "leave"), labels=("person", "car")),
        OccupancyRule(name="occupancy", kind="occupancy", polygon=zone(1), at_least=4, clear_at=2),
        LineRule(name="line", kind="line", line=((0.1, 0.5), (0.9, 0.6)), labels=("person",)),
        DwellRule(name="dwell", kind="dwell", polygon=zone(2), seconds=3, min_height=0.05),
        AbsenceRule(name="absence", kind="absence", polygon=zone(3), seconds=3, min_confidence=0.4),
        CountRule(name="count", kind="count", polygon=zone(4), at_least=30, window=60),
    )


def own(number: int) -> tuple[tuple[float, float], ...]:
    """A zone for each rule."""
    return tuple((x + number / 200, y) for x, y in ZONE)


def shared(_: int) -> tuple[tuple[float, float], ...]:
    """One zone for all."""
    return ZONE


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
        f"{name:<30} p50 {cuts[49] * 1e3:7.3f} ms   p95 {cuts[94] * 1e3:7.3f} ms   p99 {cuts[98] * 1e3:7.3f} ms"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=2000)
    frames = parser.parse_args().frames
    for tracks in (0, 5, 20, 100):
        scenes = walks(tracks, frames, seed=1)
        report(f"rules, own zones, {tracks} tracks", step_rules(rules(own), scenes))
        report(f"rules, one zone, {tracks} tracks", step_rules(rules(shared), scenes))
        spent, events = step_desk(rules(own), scenes)
        report(f"desk, own zones, {tracks} tracks", spent)
        print(f"    {events} events in {frames} frames")


def step_rules(configured: tuple[RuleConfig, ...], scenes: list[Tracks]) -> list[float]:
    """CPU seconds of each step of the rules alone."""
    machines = [make_rule(rule, LABELS) for rule in configured]
    timeline, spent = Timeline(), []
    for index, seen in enumerate(scenes):
        start = time.thread_time()
        moment = timeline.advance(epoch=0, sequence=index, capture_ns=index, media_ns=index * 33_333_333)
        assert moment is not None
        scene = Scene(moment, 768, 576, seen)
        for machine in machines:
            machine.step(scene)
        spent.append(time.thread_time() - start)
    return spent


def step_desk(configured: tuple[RuleConfig, ...], scenes: list[Tracks]) -> tuple[list[float], int]:
    """CPU seconds of each step of a desk, and how many records it made."""
    clock = SystemClock()
    desk = EventDesk("bench", configured, LABELS, config_digest="sha256:" + "0" * 64, clock=clock)
    image, spent, events = np.zeros((576, 768, 3), np.uint8), [], 0
    for index, seen in enumerate(scenes):
        frame = Frame(image, "bench", 0, index, clock.monotonic_ns(), index * 33_333_333)
        start = time.thread_time()
        events += len(desk.observe(frame, seen))
        spent.append(time.thread_time() - start)
    return spent, events


if __name__ == "__main__":
    main()
