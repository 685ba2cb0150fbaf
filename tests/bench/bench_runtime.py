"""The whole runtime against bare loops: `edge-runtime bench` on both configurations, and at two threads."""

import sys
import tempfile
from pathlib import Path

from edge_runtime.cli.main import run
from edge_runtime.packages import ensure_weights
from tests.bench.machine import require_shared

HERE = Path(__file__).resolve().parent
CONFIGS = ("yolox_nano_416", "yolov8n_640")


def main() -> int:
    """Print both; the fast model once more at two threads without spinning."""
    require_shared()
    code = 0
    for name in CONFIGS:
        ensure_weights(HERE / "packages" / name)
        print(f"\n-- {name}, one thread", flush=True)
        code |= run(["bench", str(HERE / f"{name}.yaml")])
    text = (HERE / "yolox_nano_416.yaml").read_text(encoding="utf-8")
    text = text.replace("threads: 1", "threads: 2").replace("packages/", f"{HERE}/packages/")
    text = text.replace("../../../shared", f"{HERE.parent.parent.parent}/shared")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        print("\n-- yolox_nano_416, two threads without spinning", flush=True)
        code |= run(["bench", file.name])
    return code


if __name__ == "__main__":
    sys.exit(main())
