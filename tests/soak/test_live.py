"""Minutes on synthetic cameras: ages bounded, memory flat. `make soak`; EDGE_SOAK_MINUTES changes how many."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest
import yaml

from edge_runtime.config import load_config
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from tests.rigs.slope import slope_per_minute

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("EDGE_SOAK_MINUTES", "10"))
_SAMPLE_S = 1.0
_SETTLE = 0.2
"""The first fifth is left out of the slope: caches and allocator arenas are still filling."""


def _memory_mib(stop: threading.Event, samples: list[tuple[float, float]]) -> None:
    process, begun = psutil.Process(), time.monotonic()
    while not stop.wait(_SAMPLE_S):
        samples.append((time.monotonic() - begun, process.memory_info().rss / 2**20))


def test_a_camera_three_times_faster_than_the_model(yolox_package: Path, tmp_path: Path) -> None:
    """Age at evaluation stays within one frame period plus the model's time, and memory does not grow."""
    config = {
        "models": {
            "m": {
                "package": str(yolox_package),
                "threads": 1,
                "mode": "latency",
                "accept_licences": ["NOASSERTION"],
            }
        },
        "cameras": {
            "fast": {
                "source": {"kind": "synthetic", "fps": 90, "width": 640, "height": 480, "objects": 8},
                "model": "m",
                "data_class": "public",
                "rules": [{"kind": "occupancy", "name": "anything"}],
            }
        },
    }
    path = tmp_path / "soak.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    loaded = load_config(path)
    models = load_models(loaded)
    measured = Node(loaded, models, max_frames=60).run().stages["infer"].p50_ms / 1e3
    config["cameras"]["fast"]["source"]["fps"] = rate = min(480.0, 3 / measured)  # type: ignore[index]
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    loaded = load_config(path)
    node = Node(loaded, models)
    samples: list[tuple[float, float]] = []
    stop = threading.Event()
    watcher = threading.Thread(target=_memory_mib, args=(stop, samples))
    ender = threading.Timer(MINUTES * 60, node.request_stop)
    watcher.start()
    ender.start()
    result = node.run()
    stop.set()
    watcher.join()
    for ready in models.values():
        ready.model.close()

    camera, stages = result.cameras["fast"], result.stages
    period_ms = 1000 / rate
    around_ms = sum(stages[name].p95_ms for name in ("decode", "preprocess", "postprocess", "track", "rules"))
    slope, error = slope_per_minute(samples, _SETTLE)
    print(
        f"\n{MINUTES:g} min at {rate:.0f} frames/s against a model of {stages['infer'].p50_ms:.1f} ms: "
        f"age p50 {stages['age'].p50_ms:.1f} p95 {stages['age'].p95_ms:.1f} p99 {stages['age'].p99_ms:.1f} ms, "
        f"period + model {period_ms + stages['infer'].p50_ms:.1f} ms; evaluated {camera.evaluated}, "
        f"dropped {dict(camera.drops)}; memory {slope:+.3f} +- {error:.3f} MiB/min"
    )
    assert camera.evaluated > 100
    assert sum(camera.drops.values()) > camera.evaluated
    assert stages["age"].p50_ms <= period_ms + stages["infer"].p50_ms + around_ms
    assert stages["age"].p95_ms <= period_ms + stages["infer"].p95_ms + around_ms
    assert slope <= max(3 * error, 0.2)
