"""Decoding a file to BGR frames: ours against OpenCV's reader and plain PyAV, by CPU time and by wall time.

    python -m tests.bench.bench_decoding [CLIP ...] [--rounds N]

CPU time is that of the whole process, all threads, so that a busy machine disturbs it little. Ratios are medians
over rounds in which every way runs once.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import av
import cv2

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import FileSource
from edge_runtime.sources import open_source
from edge_runtime.sources.address import file_address
from edge_runtime.sources.pyav import PyavReader
from edge_runtime.telemetry import configure_logging
from tests.bench.machine import require_shared


def with_opencv(clip: Path) -> int:
    """`cv2.VideoCapture`, what most programs use."""
    capture, count = cv2.VideoCapture(str(clip)), 0
    while capture.read()[0]:
        count += 1
    return count


def with_plain_pyav(clip: Path) -> int:
    """PyAV's own way to a BGR array."""
    count = 0
    with av.open(str(clip)) as container:
        for frame in container.decode(video=0):
            frame.to_ndarray(format="bgr24")
            count += 1
    return count


def with_our_reader(clip: Path) -> int:
    """The reader alone: decoding, range and matrix, rotation."""
    reader = PyavReader(file_address(clip.name, clip.parent), SystemClock(), threading.Event())
    count = 0
    while reader.read() is not None:
        count += 1
    reader.close()
    return count


def with_our_source(clip: Path) -> int:
    """The whole source: its thread, stamps, dark check and queue as well."""
    config = FileSource(kind="file", path=clip.name)
    source = open_source("clip", config, base=clip.parent, clock=SystemClock())
    changed, count = threading.Event(), 0
    source.on_change(changed.set)
    source.start()
    while not source.finished:
        changed.clear()
        if source.poll() is not None:
            count += 1
        elif not source.finished:
            changed.wait(1.0)
    source.stop()
    return count


WAYS: dict[str, Callable[[Path], int]] = {
    "cv2.VideoCapture": with_opencv,
    "PyAV to_ndarray": with_plain_pyav,
    "our reader": with_our_reader,
    "our source": with_our_source,
}


def main() -> None:
    """Prints a table for each clip."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clips", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    media = require_shared() / "data" / "media" if not arguments.clips else Path()
    clips = arguments.clips or [media / "vtest.avi", media / "car-detection.mp4"]
    configure_logging(level="error")
    cv2.setNumThreads(1)
    for clip in clips:
        cpu: dict[str, list[float]] = {way: [] for way in WAYS}
        wall: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(arguments.rounds):
            for way, run in WAYS.items():
                begin, begin_cpu = time.perf_counter(), time.process_time()
                frames = run(clip)
                cpu[way].append((time.process_time() - begin_cpu) / frames * 1e3)
                wall[way].append((time.perf_counter() - begin) / frames * 1e3)
        print(f"{clip.name}: {frames} frames, medians of {arguments.rounds} rounds")
        print(f"  {'way':<18} {'CPU ms/frame':>12} {'wall ms/frame':>14} {'CPU to OpenCV':>14}")
        for way in WAYS:
            ratio = statistics.median(a / b for a, b in zip(cpu[way], cpu["cv2.VideoCapture"], strict=True))
            times = statistics.median(cpu[way]), statistics.median(wall[way])
            print(f"  {way:<18} {times[0]:12.2f} {times[1]:14.2f} {ratio:14.2f}")


if __name__ == "__main__":
    main()
