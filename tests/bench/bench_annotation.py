"""What drawing, encoding and the live view cost; beside them a plain copy of the frame, for scale."""

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from edge_runtime.annotation import Annotator, VideoWriter
from edge_runtime.cli.live import live_screen
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.rules import LineRule, OccupancyRule
from edge_runtime.node.snapshot import CameraSnapshot, RunSnapshot
from edge_runtime.perception.detections import Tracks
from edge_runtime.sources import Frame

ZONE = OccupancyRule(
    kind="occupancy", name="bay", polygon=((0.3, 0.3), (0.7, 0.25), (0.75, 0.8), (0.25, 0.85))
)
LINE = LineRule(kind="line", name="door", line=((0.05, 0.9), (0.5, 0.6)))
MASK = PrivacyMask(polygon=((0.85, 0.0), (1.0, 0.0), (1.0, 0.3), (0.85, 0.3)))
OBJECTS = 20


def measure(name: str, work: Callable[[int], object], repeats: int = 300) -> None:
    """Prints median and 95th percentile of the CPU time of one call."""
    for index in range(10):
        work(index)
    spent = []
    for index in range(10, 10 + repeats):
        start = time.thread_time_ns()
        work(index)
        spent.append(time.thread_time_ns() - start)
    p50, p95 = (float(value) / 1e6 for value in np.percentile(spent, (50, 95)))
    print(f"  {name:<42} p50 {p50:7.3f} ms   p95 {p95:7.3f} ms")


def walkers(count: int, width: int, height: int, index: int) -> Tracks:
    """Boxes that drift to the right."""
    rng = np.random.default_rng(count)
    corner = rng.uniform(0.0, 0.8, (count, 2)) * (width, height) + (0.5 * index % 50, 0.0)
    size = rng.uniform(0.05, 0.2, (count, 2)) * (width, height)
    boxes = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
    return Tracks(
        np.arange(1, count + 1),
        boxes,
        np.full(count, 0.9, np.float32),
        np.zeros(count, np.int64),
        np.ones(count, np.bool_),
    )


def bench_drawing(width: int, height: int, image: np.ndarray) -> None:
    """Copy and draw one size."""
    annotator = Annotator(["person"], [ZONE, LINE], [MASK], trail_s=1.5)
    measure(f"copy {width}x{height}", lambda _: image.copy())
    measure(
        f"draw {width}x{height}, {OBJECTS} objects",
        lambda index: annotator.draw(
            Frame(image, "bench", 0, index, 0, index * 33_333_333), walkers(OBJECTS, width, height, index)
        ),
    )


def bench_encoding(image: np.ndarray) -> None:
    """One frame into a video, noise and all."""
    with tempfile.TemporaryDirectory() as folder:
        writer = VideoWriter(Path(folder) / "video.mp4", 30.0)
        measure("encode 640x480", lambda index: writer.write(image, index * 33_333_333), repeats=100)
        writer.close()
        print(f"  {'':<42} with {writer.encoder}")


def bench_live_view() -> None:
    """One picture of the live view."""
    camera = CameraSnapshot(
        state="running",
        decoded=1000,
        evaluated=990,
        not_evaluated={"dark": 3},
        drops={"too_old": 7},
        reconnects=1,
        tracks=3,
        age_ms=40.0,
        events={"bay": 2},
        late=0,
        suppressed={},
        refused_too_large=0,
        evidence_failed=0,
        damaged=0,
        nonfinite=0,
        error=None,
        last_text="",
    )
    cameras = {f"camera{n}": camera for n in range(8)}
    snapshot = RunSnapshot(30.0, cameras, models={}, stages={}, recent=(), interrupted=False)
    console = Console(file=io.StringIO(), force_terminal=True, width=110)
    measure("live view, 8 cameras", lambda _: console.print(live_screen(snapshot, {})), repeats=50)


def main() -> None:
    """Prints the table."""
    for width, height in ((176, 144), (640, 480), (1920, 1080)):
        ramp = np.linspace(0, 255, width, dtype=np.uint8)
        image = np.ascontiguousarray(np.broadcast_to(ramp[None, :, None], (height, width, 3)))
        bench_drawing(width, height, image)
        if width == 640:
            bench_encoding(image)
    bench_live_view()


if __name__ == "__main__":
    main()
