"""Time of one tracker step against the ByteTrack of `trackers` on the same detections, in pairs.

    python -m tests.bench.bench_tracker [--frames N]

Both run in one process of a bench-only environment and take turns on every frame. Budget: at most 0.4 ms for 20
objects and 0.7 ms for 100 on one core, and at least 4 times faster than the other.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from edge_runtime.perception.detections import Detections
from tests.bench.environments import ROOT, peers
from tests.conftest import shared_directory
from tests.scoring import vtest

WARM_UP = 30


def crowd(count: int, frames: int, seed: int = 1) -> list[Detections]:
    """People who walk over a 1920x1080 picture at 10 fps and turn at its edges.

    Boxes jitter by 3 % of their size, scores follow beta(8, 2), one person in twenty is missed in each frame and
    one frame in three has a false box.
    """
    rng = np.random.default_rng(seed)
    limit = np.array([1920.0, 1080.0])
    place = rng.random((count, 2)) * limit
    speed = rng.normal(0, 6, (count, 2))
    size = rng.uniform(30, 70, (count, 1)) * np.array([1.0, 2.4])
    scene = []
    for _ in range(frames):
        place += speed
        speed = np.where((place < 0) | (place > limit), -speed, speed)
        place = np.clip(place, 0, limit)
        seen = rng.random(count) >= 0.05
        centre = place + rng.normal(0, 0.03, (count, 2)) * size
        half = size * (1 + rng.normal(0, 0.03, (count, 2))) / 2
        xyxy = np.concatenate([centre - half, centre + half], axis=1)[seen]
        score = rng.beta(8, 2, count)[seen]
        if rng.random() < 1 / 3:
            left, top = rng.random(2) * limit
            xyxy = np.concatenate([xyxy, [[left, top, left + 40, top + 96]]])
            score = np.append(score, rng.uniform(0.1, 0.9))
        order = np.argsort(-score)
        scene.append(
            Detections(
                xyxy[order].astype(np.float32),
                score[order].astype(np.float32),
                np.zeros(len(score), np.int64),
            )
        )
    return scene


def save(path: Path, scene: list[Detections]) -> None:
    """Detections as the peers' script reads them."""
    np.savez(
        path,
        frame=np.repeat(np.arange(1, len(scene) + 1), [len(found) for found in scene]),
        xyxy=np.concatenate([found.xyxy for found in scene]),
        score=np.concatenate([found.score for found in scene]),
        label=np.concatenate([found.label for found in scene]),
    )


def report(name: str, scene: list[Detections], folder: Path) -> None:
    """One line of the table."""
    path = folder / "detections.npz"
    save(path, scene)
    done = subprocess.run(
        [str(peers()), "-m", "tests.bench.peers.bytetrack", "race", str(path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    spent = json.loads(done.stdout.strip().splitlines()[-1])
    ours, theirs = spent["ours"][WARM_UP:], spent["theirs"][WARM_UP:]
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    p95 = statistics.quantiles(ours, n=20)[-1]
    objects = statistics.mean(len(found) for found in scene)
    print(
        f"{name:<22} {objects:6.1f} {statistics.median(ours):9.3f} {p95:8.3f} "
        f"{statistics.median(theirs):10.3f} {ratio:8.1f}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=400)
    frames = parser.parse_args().frames
    print(f"{'ms per update':<22} {'boxes':>6} {'ours p50':>9} {'p95':>8} {'trackers':>10} {'ratio':>8}")
    shared = shared_directory()
    with tempfile.TemporaryDirectory() as folder:
        for count in (5, 20, 50, 100):
            report(f"{count} walkers", crowd(count, frames), Path(folder))
        if shared is not None:
            report("public vtest", vtest.public_detections(shared / "data" / "truth"), Path(folder))


if __name__ == "__main__":
    main()
