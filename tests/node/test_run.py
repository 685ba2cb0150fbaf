"""`edge-runtime run` as its user: real video, real model, real signals."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import yaml

from edge_runtime.cli.main import run

ACCEPTED = ["NOASSERTION", "AGPL-3.0"]


def write_config(directory: Path, package: Path, cameras: dict[str, Any], **more: Any) -> Path:
    model = {"package": str(package), "threads": 1, "accept_licences": ACCEPTED}
    document = {"version": 1, "models": {"m": model | more.pop("model", {})}, "cameras": cameras, **more}
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def camera(source: dict[str, Any], *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"source": source, "model": "m", "data_class": "internal", "rules": list(rules), **more}


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


BUSY = {"kind": "occupancy", "name": "busy", "labels": ["person"], "at_least": 2, "hold": 0}


def test_a_recording_from_frames_to_events(tmp_path: Path, media: Path, yolox_package: Path) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write_config(tmp_path, yolox_package, {"street": camera(source, BUSY)})
    events, summary, video, sheet = (tmp_path / n for n in ("e.ndjson", "s.json", "a.mp4", "c.png"))
    code = run(
        [
            "run",
            str(config),
            "--max-frames",
            "25",
            "--events",
            str(events),
            "--summary",
            str(summary),
            "--annotate",
            str(video),
            "--contact-sheet",
            str(sheet),
        ]
    )
    assert code == 0
    report = json.loads(summary.read_text(encoding="utf-8"))
    assert report["frames"] == 25
    assert report["cameras"]["street"]["evaluated"] == 25
    assert report["cameras"]["street"]["not_evaluated"] == {}
    assert {"decode", "preprocess", "infer", "postprocess", "track", "rules", "age"} <= set(
        report["stages_ms"]
    )
    assert report["stages_ms"]["decode"]["p50"] > 0
    happened = events_of(events)
    assert {(e["id"], e["rule"]) for e in happened} == {(happened[0]["id"], "busy")}
    assert [e["revision"] for e in happened] == list(range(1, len(happened) + 1))
    states = [e["state"] for e in happened]
    assert (states[0], states[-1]) == ("started", "ended")
    assert set(states[1:-1]) <= {"updated"}
    assert all(e["data_class"] == "internal" and len(json.dumps(e)) < 4096 for e in happened)
    assert not any(e["late"] for e in happened if e["state"] == "started")
    assert report["cameras"]["street"]["events"] == {"busy": 1}
    with av.open(str(video)) as container:
        assert sum(1 for _ in container.decode(video=0)) == 25
    assert sheet.stat().st_size > 10_000


def test_throughput_and_latency_see_the_same(tmp_path: Path, media: Path, yolox_package: Path) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    seen = []
    for mode in ("latency", "throughput"):
        config = write_config(
            tmp_path, yolox_package, {"street": camera(source, BUSY)}, model={"mode": mode, "threads": 1}
        )
        out = tmp_path / f"{mode}.ndjson"
        assert run(["run", str(config), "--max-frames", "20", "--events", str(out)]) == 0
        seen.append(
            [(e["sequence"], e["rule"], e["state"], e.get("count"), e.get("box")) for e in events_of(out)]
        )
    assert seen[0] == seen[1]
    assert seen[0]


def test_a_masked_region_is_black_before_anybody_looks(
    tmp_path: Path, media: Path, yolox_package: Path
) -> None:
    people = [[0, 0.15], [1, 0.15], [1, 1], [0, 1]]  # what is left is the house
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write_config(
        tmp_path, yolox_package, {"street": camera(source, BUSY, masks=[{"polygon": people}])}
    )
    video, events = tmp_path / "a.mp4", tmp_path / "e.ndjson"
    assert (
        run(["run", str(config), "--max-frames", "5", "--annotate", str(video), "--events", str(events)]) == 0
    )
    assert events_of(events) == []
    with av.open(str(video)) as container:
        image = next(container.decode(video=0)).to_ndarray(format="gray")
    assert np.median(image[200:400, 200:500]) < 20


def spawn(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "edge_runtime.cli.main", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(what: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_cleanly_and_marks_open_events_interrupted(
    tmp_path: Path, yolox_package: Path, number: signal.Signals
) -> None:
    source = {"kind": "synthetic", "fps": 15, "width": 320, "height": 240}
    nothing = {"kind": "absence", "name": "nobody", "labels": ["zebra"], "seconds": 0.2}
    config = write_config(tmp_path, yolox_package, {"yard": camera(source, nothing)})
    events, summary = tmp_path / "e.ndjson", tmp_path / "s.json"
    process = spawn(str(config), "--events", str(events), "--summary", str(summary))
    wait_for(lambda: events.exists() and b"nobody" in events.read_bytes())
    process.send_signal(number)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 0, stderr
    assert [e["state"] for e in events_of(events)] == ["started", "interrupted"]
    assert json.loads(summary.read_text(encoding="utf-8"))["interrupted"] is True
    assert "Traceback" not in stderr


def test_a_signal_while_models_load_ends_the_run_with_its_summary(
    tmp_path: Path, yolox_package: Path
) -> None:
    source = {"kind": "synthetic", "fps": 15, "width": 320, "height": 240}
    config = write_config(tmp_path, yolox_package, {"yard": camera(source, BUSY)})
    events, summary = tmp_path / "e.ndjson", tmp_path / "s.json"
    process = spawn(str(config), "--events", str(events), "--summary", str(summary))
    wait_for(events.exists)  # opened before the models are
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 0, stderr
    assert json.loads(summary.read_text(encoding="utf-8"))["interrupted"] is True


def test_a_camera_that_goes_silent_is_not_an_empty_scene(tmp_path: Path, yolox_package: Path) -> None:
    source = {
        "kind": "synthetic", "fps": 20, "width": 320, "height": 240, "dead_after": 10,
        "stall_after": 0.4, "give_up_after": 1.5, "backoff_first": 0.1, "backoff_max": 0.2,
    }  # fmt: skip
    nobody = {"kind": "absence", "name": "nobody", "labels": ["zebra"], "seconds": 30}
    long_gone = {"kind": "absence", "name": "long_gone", "labels": ["zebra"], "seconds": 0.1}
    config = write_config(tmp_path, yolox_package, {"yard": camera(source, nobody, long_gone)})
    events = tmp_path / "e.ndjson"
    assert run(["run", str(config), "--events", str(events)]) == 1  # the camera failed for good
    kinds = [e["kind"] for e in events_of(events) if e["state"] == "started"]
    assert {"camera_stalled", "camera_lost"} & set(kinds)
    assert "nobody" not in {e["rule"] for e in events_of(events)}
    # Nobody knows how it went on after the camera was gone: what was open is not over, it is interrupted.
    assert [e["state"] for e in events_of(events) if e["rule"] == "long_gone"][-1] == "interrupted"


def test_a_model_that_never_answers_is_a_failure_not_an_empty_scene(
    tmp_path: Path, media: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write_config(
        tmp_path, yolox_package, {"street": camera(source, BUSY)}, model={"timeout": 0.0001, "threads": 1}
    )
    events = tmp_path / "e.ndjson"
    assert run(["run", str(config), "--max-frames", "5", "--events", str(events)]) == 1
    assert next(e["kind"] for e in events_of(events)) == "inference_failed"
    stderr = capsys.readouterr().err
    assert "camera street: its model answered for no frame (inference timeout 5)" in stderr


def test_events_that_could_not_be_written_are_counted_and_fail_the_run(
    tmp_path: Path, media: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write_config(tmp_path, yolox_package, {"street": camera(source, BUSY)})
    summary = tmp_path / "s.json"
    arguments = ["--max-frames", "10", "--events", "/dev/full", "--summary", str(summary)]
    assert run(["run", str(config), *arguments]) == 1
    assert json.loads(summary.read_text(encoding="utf-8"))["events_lost"] > 0
    assert "events lost: events cannot be written to /dev/full: No space left" in capsys.readouterr().err


def test_metrics_are_served_while_it_runs(tmp_path: Path, yolox_package: Path) -> None:
    source = {"kind": "synthetic", "fps": 15, "width": 320, "height": 240}
    config = write_config(tmp_path, yolox_package, {"yard": camera(source, BUSY)})
    port = 20_000 + os.getpid() % 20_000
    process = spawn(str(config), "--metrics", f"127.0.0.1:{port}")

    def text() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    expected = (
        'edge_frames_total{camera="yard",outcome="evaluated"}',
        'edge_stage_seconds_count{camera="yard",stage="infer"}',
        'edge_stage_seconds_count{camera="yard",stage="decode"}',
        'edge_source_state{camera="yard",state="running"} 1.0',
        'edge_frame_age_seconds_count{camera="yard"}',
        "edge_build_info",
    )
    try:
        wait_for(lambda: all(line in found for found in [text()] for line in expected))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": ["persn"]}, "did you mean person?"),
        ({"kind": "zone", "polygon": [[0, 0], [1, 1]]}, "needs at least 3 points"),
    ],
)
def test_a_bad_rule_is_one_located_sentence(
    tmp_path: Path, media: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str],
    change: dict[str, Any], sentence: str,
) -> None:  # fmt: skip
    rule = {"kind": "occupancy", "name": "busy", **change}
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write_config(tmp_path, yolox_package, {"street": camera(source, rule)})
    assert run(["run", str(config)]) == 2
    stderr = capsys.readouterr().err
    assert "cameras.street.rules[0]" in stderr
    assert sentence in stderr


def test_a_licence_that_nobody_accepted_does_not_run(
    tmp_path: Path, media: Path, package_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    package = package_of("yolov8n_coco_int8_640")
    config = write_config(tmp_path, package, {"street": camera(source)}, model={"accept_licences": []})
    assert run(["run", str(config)]) == 1
    assert "accept_licences: [AGPL-3.0" in capsys.readouterr().err


def test_a_missing_recording_is_one_sentence(
    tmp_path: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, yolox_package, {"street": camera({"kind": "file", "path": "no.mp4"})})
    assert run(["run", str(config)]) == 1
    assert "no.mp4" in capsys.readouterr().err
