"""Against what a user would take instead: Ultralytics on the same ONNX file and clip, in pairs.

Frames per second with each at its defaults; processor time outside the model with one intra-op thread each,
timed around the run call by the same replaced session class.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.environments import ROOT, python_of
from tests.bench.machine import require_shared

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "yolov8n_640.yaml"
PAIRS = 15
FRAMES = 60


def one(command: list[str]) -> dict[str, Any]:
    """Run one pass and read its JSON line."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compare(title: str, ours: list[str], theirs: list[str], key: str) -> None:
    """Alternate, and print medians and the ratio within pairs."""
    pairs = []
    for index in range(PAIRS):
        order = (ours, theirs) if index % 2 else (theirs, ours)
        results = [one(command)[key] for command in order]
        pairs.append(tuple(results) if index % 2 else tuple(reversed(results)))
    ratios = sorted(mine / other for mine, other in pairs)
    low, _, high = statistics.quantiles(ratios, n=4)
    print(
        f"{title}: ours {statistics.median(p[0] for p in pairs):.2f}, "
        f"Ultralytics {statistics.median(p[1] for p in pairs):.2f}, "
        f"ratio {statistics.median(ratios):.3f} (quartiles {low:.3f} to {high:.3f}, {PAIRS} pairs)",
        flush=True,
    )


def main() -> None:
    """Print both comparisons."""
    shared = require_shared()
    model = str(shared / "data" / "models" / "yolov8n_coco_int8_640.onnx")
    clip = str(shared / "data" / "media" / "vtest.avi")
    python = python_of("ultralytics-venv", HERE / "requirements-ultralytics.txt")
    peer = [str(python), "-m", "tests.bench.peers.ultralytics_predict", model, clip, str(FRAMES)]
    mine = [sys.executable, "-m", "tests.bench.peers.ours", str(CONFIG), str(FRAMES)]
    compare("frames/s, each at its defaults", [*mine, "default"], [*peer, "default"], "fps")
    compare("ms outside the model, one thread", [*mine, "latency"], [*peer, "1"], "outside_ms")


if __name__ == "__main__":
    main()
