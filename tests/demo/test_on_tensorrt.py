"""The demo with `providers: [tensorrt, cpu]`, on the double of TensorRT: the events of ONNX Runtime, one by one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.demo.assets import CLIPS, MODEL, REPOSITORY
from deploy.demo.compose import Wishes, compose
from edge_runtime.config import load_config
from edge_runtime.errors import PackageError
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from edge_runtime.packages import open_package
from tests.rigs.openings import Device
from tests.rigs.tensorrt_double import RELEASES, Faults, installed
from tests.rigs.tensorrt_double.child import DoubleFolder, double_folder

OWN = ("id", "latency_ms", "late", "config")
"""What two runs never have in common."""


@pytest.fixture(scope="session")
def assets() -> None:
    """The model and the clips; `make test` fetches them first."""
    try:
        open_package(MODEL)
    except PackageError as error:
        pytest.skip(f"the demo's model is not there ({error}): run `make assets`")
    missing = [name for name in ("carphone.mp4", "bikes.mp4") if not (CLIPS / name).is_file()]
    if missing:
        pytest.skip(f"the demo's clips are not there ({', '.join(missing)}): run `make assets`")


def demo(
    folder: Path, environment: dict[str, str], frames: int | None, **model: Any
) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """The demo's camera in a process of its own: its events, its summary, and what it said on stderr."""
    folder.mkdir()
    path = compose(Wishes(), folder, REPOSITORY, "every_frame")
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    data["models"]["detector"] |= model
    data["evidence"]["directory"] = str(folder / "crops")
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    events, summary = folder / "events.ndjson", folder / "summary.json"
    limit = [] if frames is None else ["--max-frames", str(frames)]
    files = ["--events", str(events), "--summary", str(summary)]
    done = subprocess.run(
        [sys.executable, "-m", "edge_runtime.cli.main", "run", str(path), *files, *limit],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    return told, json.loads(summary.read_text(encoding="utf-8")), done.stderr + done.stdout


def story(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without what two runs never have in common: identity and the clocks of the machine."""
    told = [{key: value for key, value in event.items() if key not in OWN} for event in events]
    return [
        event | {moment: event[moment]["media_s"] for moment in ("started", "at") if moment in event}
        for event in told
    ]


def environment_of(double: DoubleFolder, state: Path) -> dict[str, str]:
    return double.environment() | {"EDGE_RUNTIME_STATE": str(state)}


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("assets")
@pytest.mark.parametrize(
    ("release", "frames"),
    [
        pytest.param("10.3.0", 270),
        *(pytest.param(release, None, marks=pytest.mark.trial) for release in RELEASES),
    ],
)
def test_the_events_are_those_of_onnxruntime(tmp_path: Path, release: str, frames: int | None) -> None:
    double = double_folder(tmp_path / "double", release)
    plain = dict(os.environ)
    expected, _, _ = demo(tmp_path / "onnxruntime", plain, frames, providers=["cpu"])
    assert {event["rule"] for event in expected} == {"driver_present", "head_position", "no_driver"}
    found, summary, _ = demo(
        tmp_path / "tensorrt",
        environment_of(double, tmp_path / "state"),
        frames,
        providers=["tensorrt", "cpu"],
    )
    model = summary["models"]["detector"]
    assert (model["effective"], model["degraded"]) == ("tensorrt", None)
    assert story(found) == story(expected)
    double.check()
    assert [process["left"] for process in double.ended()] == ["nothing", "nothing"]
    assert max(process["executions"] for process in double.ended()) > summary["frames"]


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("assets")
def test_without_an_engine_the_cpu_runs_it_and_the_run_says_so(tmp_path: Path) -> None:
    double = double_folder(
        tmp_path / "double", faults=Faults(build_fails=-1, build_lines=("Error Code 10: no tactic",))
    )
    found, summary, said = demo(
        tmp_path / "run", environment_of(double, tmp_path / "state"), 20, providers=["tensorrt", "cpu"]
    )
    model = summary["models"]["detector"]
    assert model["effective"] == "cpu"
    assert "Error Code 10: no tactic" in model["degraded"]
    assert "model degraded" in said
    assert "model detector is degraded: tensorrt was asked for but cpu runs the model" in said
    assert found, "it sees all the same"


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("assets")
def test_frames_of_several_cameras_form_batches_on_one_engine(tmp_path: Path, media: Path) -> None:
    document = {
        "models": {"m": {"package": str(MODEL), "providers": ["tensorrt"], "batch": 3, "mode": "latency"}},
        "cameras": {
            name: {
                "source": {"kind": "file", "path": str(media / "vtest.avi"), "pacing": "every_frame"},
                "model": "m",
                "data_class": "public",
            }
            for name in ("a", "b", "c")
        },
    }
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    loaded = load_config(path)
    with installed("10.3.0") as double:
        device = Device(double, tmp_path / "engines")
        models = load_models(loaded, device.source())
        try:
            assert models["m"].model.backend.facts.degraded is None
            node = Node(loaded, models, max_frames=6)
            result = node.run()
        finally:
            models["m"].close()
        assert double.ledger().empty
    assert result.frames == 18
    assert all(camera.not_evaluated == {} for camera in result.cameras.values())
    assert max(node.batch_sizes()["m"]) > 1
    (manifest,) = (entry.manifest for entry in device.source().store.entries())
    assert manifest is not None
    assert manifest.recipe.batch == 3
    assert manifest.recipe.profiles[0].maximum[0] == 3
