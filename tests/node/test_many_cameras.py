"""Eight live cameras on one model, one of them dead: the others keep their ages and their shares."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from edge_runtime.config import load_config
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from edge_runtime.node.snapshot import RunSnapshot

ROUNDS = 6
"""Frames of every living camera before the run is stopped, however slow the machine is."""


def run_some_rounds(path: Path) -> tuple[RunSnapshot, Node]:
    loaded = load_config(path)
    models = load_models(loaded)
    node = Node(loaded, models)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            cameras = node.snapshot().cameras
            rounds = all(c.evaluated >= ROUNDS for name, c in cameras.items() if name != "dead")
            if rounds and cameras["dead"].events.get("@camera"):
                break
        node.request_stop()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return node.run(), node
    finally:
        over.set()
        watcher.join()
        for ready in models.values():
            ready.model.close()


def eight(directory: Path, package: Path, clip: Path) -> Path:
    """Six synthetic cameras and one recording played as a camera, all alive, and one that dies at once."""
    live = {"stall_after": 0.5, "backoff_first": 0.1, "backoff_max": 0.3, "max_age": 30.0}
    cameras: dict[str, Any] = {
        f"c{i}": {"kind": "synthetic", "fps": 10, "width": 320, "height": 240, "seed": i, **live}
        for i in range(6)
    }
    cameras["replay"] = {"kind": "file", "path": str(clip), "pacing": "camera"}
    cameras["dead"] = {"kind": "synthetic", "fps": 10, "width": 320, "height": 240, "dead_after": 0, **live}
    document = {
        "models": {
            "m": {
                "package": str(package),
                "threads": 1,
                "mode": "latency",
                "accept_licences": ["NOASSERTION", "AGPL-3.0"],
            }
        },
        "cameras": {
            name: {"source": source, "model": "m", "data_class": "internal"}
            for name, source in cameras.items()
        },
    }
    path = directory / "eight.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def check_shares(result: RunSnapshot) -> None:
    alive = {name: camera for name, camera in result.cameras.items() if name != "dead"}
    counts = sorted(camera.evaluated for camera in alive.values())
    assert counts[0] >= ROUNDS
    assert counts[-1] - counts[0] <= max(3, 0.25 * counts[-1])
    dead = result.cameras["dead"]
    assert dead.evaluated == 0
    assert dead.state in {"stalled", "reconnecting", "failed", "starting"}
    assert dead.events["@camera"] >= 1
    assert all(camera.events.get("@camera", 0) == 0 for camera in alive.values())


def test_one_at_a_time_where_the_model_takes_one(tmp_path: Path, media: Path, yolox_package: Path) -> None:
    result, _ = run_some_rounds(eight(tmp_path, yolox_package, media / "vtest.avi"))
    check_shares(result)
    # A round is seven models long; a frame is prepared when its turn comes, so it is no older than that.
    infer = result.stages["infer"]
    assert result.stages["age"].p50_ms <= 100 + 2 * infer.p95_ms + 50


def test_batches_where_the_model_allows(
    tmp_path: Path, media: Path, package_of: Callable[[str], Path]
) -> None:
    package = package_of("ssdlite_pedestrian_300_uint8_nhwc")  # its batch axis is open, and proved
    result, node = run_some_rounds(eight(tmp_path, package, media / "vtest.avi"))
    check_shares(result)
    sizes = node.batch_sizes()["m"]
    assert max(sizes) > 1
    assert sum(n * count for n, count in sizes.items()) >= result.frames
