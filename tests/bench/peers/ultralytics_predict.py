"""One pass of Ultralytics `predict(stream=True)`; prints a JSON line. Runs in the bench-only environment."""

import json
import sys
import time
from typing import Any

from tests.bench.peers import counting_session


def main(model: str, clip: str, frames: int, threads: int | None) -> dict[str, Any]:
    """Predict `frames` frames after a warm-up of ten."""
    counting_session.install(threads)
    from ultralytics import YOLO

    detector = YOLO(model, task="detect")
    stream = detector.predict(clip, stream=True, verbose=False, device="cpu")
    boxes = 0
    begun = cpu = inside = 0.0
    for seen, result in enumerate(stream):
        if seen == 10:
            begun, cpu, inside = time.perf_counter(), time.process_time(), counting_session.inside_s
        boxes += len(result.boxes)
        if seen == frames + 9:
            break
    wall = time.perf_counter() - begun
    outside = time.process_time() - cpu - (counting_session.inside_s - inside)
    return {"fps": frames / wall, "outside_ms": outside * 1000 / frames, "boxes": boxes}


if __name__ == "__main__":
    limit = None if sys.argv[4] == "default" else int(sys.argv[4])
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), limit)))
