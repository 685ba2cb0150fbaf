"""One pass of this runtime on the same file and model; prints a JSON line."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2

from tests.bench.peers import counting_session


class _Meter:
    """A frame observer that starts the clocks after the warm-up."""

    def __init__(self, warm_up: int) -> None:
        self.seen = self.boxes = 0
        self.begun = self.cpu = self.inside = self.ended = self.cpu_end = self.inside_end = 0.0
        self._warm_up = warm_up

    def add(self, frame: Any, tracks: Any, events: Sequence[Any], notice: str | None) -> None:
        self.seen += 1
        self.boxes += 0 if tracks is None else len(tracks)
        if self.seen == self._warm_up:
            self.begun, self.cpu, self.inside = (
                time.perf_counter(),
                time.process_time(),
                counting_session.inside_s,
            )
        self.ended, self.cpu_end = time.perf_counter(), time.process_time()
        self.inside_end = counting_session.inside_s


def main(config: Path, frames: int, mode: str) -> dict[str, Any]:
    """Run `frames` frames after a warm-up of ten."""
    counting_session.install(None)
    from edge_runtime.cli.run import SWITCH_INTERVAL_S
    from edge_runtime.config import load_config
    from edge_runtime.node.models import load_models
    from edge_runtime.node.node import Node

    cv2.setNumThreads(1)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    loaded = load_config(config)
    if mode != "default":
        settings = {n: m.model_copy(update={"mode": mode}) for n, m in loaded.config.models.items()}
        object.__setattr__(loaded, "config", loaded.config.model_copy(update={"models": settings}))
    models = load_models(loaded)
    meter = _Meter(10)
    (camera,) = loaded.config.cameras
    Node(loaded, models, observers={camera: meter}, max_frames=frames + 10).run()
    counted = meter.seen - 10
    outside = meter.cpu_end - meter.cpu - (meter.inside_end - meter.inside)
    return {
        "fps": counted / (meter.ended - meter.begun),
        "outside_ms": outside * 1000 / counted,
        "boxes": meter.boxes,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
