"""Against what a user would take instead: Ultralytics on the same ONNX file and clip, in pairs.

Frames per second with each at its defaults; processor time outside the model with one intra-op thread each,
timed around the run call by the same replaced session class.
"""

import json
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from tests.bench.machine import require_shared

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENT = ROOT / ".cache" / "ultralytics-venv"
CONFIG = HERE / "yolov8n_640.yaml"
PAIRS = 15
FRAMES = 60


def peer_python() -> Path:
    """The bench-only environment's interpreter; made on the first use."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / ".complete").is_file():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        requirements = str(HERE / "requirements-ultralytics.txt")
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
        (ENVIRONMENT / ".complete").touch()
    return python


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
    peer = [str(peer_python()), "-m", "tests.bench.peers.ultralytics_predict", model, clip, str(FRAMES)]
    mine = [sys.executable, "-m", "tests.bench.peers.ours", str(CONFIG), str(FRAMES)]
    compare("frames/s, each at its defaults", [*mine, "default"], [*peer, "default"], "fps")
    compare("ms outside the model, one thread", [*mine, "latency"], [*peer, "1"], "outside_ms")


if __name__ == "__main__":
    main()
