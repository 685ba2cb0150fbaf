"""Minutes on synthetic cameras: ages bounded, memory flat. `make soak`; EDGE_SOAK_MINUTES changes how many."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from edge_runtime.config import load_config
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from sim.soak import SoakRun, over
from sim.soak.figures import jitter

pytestmark = pytest.mark.soak


def test_a_camera_three_times_faster_than_the_model(
    yolox_package: Path, tmp_path: Path, soak: Callable[[str], SoakRun], minutes: float
) -> None:
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
    node, run = Node(loaded, models), soak("live")
    ender = threading.Timer(minutes * 60, node.request_stop)
    with run.watching(lambda: {"node": os.getpid()}):
        ender.start()
        result = node.run()
    for ready in models.values():
        ready.model.close()

    camera, stages = result.cameras["fast"], result.stages
    age, infer, period_ms = stages["age"], stages["infer"], 1000 / rate
    around_ms = sum(stages[name].p95_ms for name in ("decode", "preprocess", "postprocess", "track", "rules"))
    lines = run.finish(
        [jitter("node", age.p50_ms, age.p95_ms)],
        minutes=minutes,
        frames_per_s=round(rate),
        model_ms=round(infer.p50_ms, 1),
        age_ms=[round(one, 1) for one in (age.p50_ms, age.p95_ms, age.p99_ms)],
        evaluated=camera.evaluated,
        dropped=sum(camera.drops.values()),
    )
    assert camera.evaluated > 100
    assert sum(camera.drops.values()) > camera.evaluated
    assert age.p50_ms <= period_ms + infer.p50_ms + around_ms
    assert age.p95_ms <= period_ms + infer.p95_ms + around_ms
    assert not over(lines)
