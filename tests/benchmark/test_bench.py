"""`edge-runtime bench` measures both modes against bare loops, and says what it cannot compare."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runtime.benchmark import measure_pairs
from edge_runtime.cli.main import run
from edge_runtime.clock import SystemClock


def write(directory: Path, package: Path, **cameras: Any) -> Path:
    model = {"package": str(package), "threads": 1, "accept_licences": ["NOASSERTION"]}
    path = directory / "bench.yaml"
    path.write_text(
        yaml.safe_dump({"models": {"m": model, "n": model}, "cameras": cameras}), encoding="utf-8"
    )
    return path


def camera(source: dict[str, Any], model: str = "m") -> dict[str, Any]:
    return {"source": source, "model": model, "data_class": "public"}


def test_one_object_on_stdout(
    tmp_path: Path, media: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write(tmp_path, yolox_package, street=camera(source))
    capsys.readouterr()
    assert run(["bench", str(config), "--json", "--pairs", "2", "--seconds", "0.2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ratio_to_bare"] > 0
    assert report["ratio_to_best_bare"] > 0
    assert report["fps"] > 0
    assert {"decode", "preprocess", "infer", "postprocess", "track", "rules"} <= set(report["stages_ms"])
    assert set(report["stages_ms"]["infer"]) == {"p50", "p95", "p99"}
    assert report["latency"]["pairs"] == report["throughput"]["pairs"] == 2
    assert len(report["bare_fps"]) >= 1


def test_the_sustained_rate_beside_the_peak(
    tmp_path: Path, media: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write(tmp_path, yolox_package, street=camera(source))
    capsys.readouterr()
    arguments = ["bench", str(config), "--sustained", "1", "--seconds", "0.2"]
    assert run([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    windows = report["windows"]
    assert windows[-1]["seconds"] >= 1
    assert all(window["seconds"] <= 1 for window in windows[:-1])
    assert report["peak_fps"] == max(window["fps"] for window in windows)
    assert min(window["fps"] for window in windows) <= report["sustained_fps"] <= report["peak_fps"]
    assert report["share"] == pytest.approx(report["sustained_fps"] / report["peak_fps"], abs=0.01)
    at_a_time = report["shortest_deadline_ms"] * report["sustained_fps"] / 2000
    assert at_a_time == pytest.approx(round(at_a_time), rel=0.01)
    assert 1 <= round(at_a_time) <= report["cores"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "sustained" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_live_camera_has_no_sustained_rate(
    tmp_path: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, yolox_package, yard=camera({"kind": "synthetic"}))
    assert run(["bench", str(config), "--sustained", "1"]) == 2
    assert "bench needs a recording" in capsys.readouterr().err


def test_a_live_camera_cannot_be_compared(
    tmp_path: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, yolox_package, yard=camera({"kind": "synthetic"}))
    assert run(["bench", str(config)]) == 2
    assert "cameras.yard.source: bench needs a recording" in capsys.readouterr().err


def test_two_models_cannot_be_compared(
    tmp_path: Path, yolox_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"kind": "synthetic", "pacing": "every_frame", "frames": 5}
    config = write(tmp_path, yolox_package, a=camera(source), b=camera(source, "n"))
    assert run(["bench", str(config)]) == 2
    assert "bench compares one model, this configuration uses 2: m, n" in capsys.readouterr().err


def test_pairs_alternate_and_compare_within_each_pair() -> None:
    order: list[str] = []

    def work(name: str, rounds: int) -> int:
        order.append(name)
        sum(range(rounds))
        return 10

    result = measure_pairs(SystemClock(), lambda: work("ours", 20_000), lambda: work("bare", 400_000), 4)
    assert result.pairs == 4
    assert result.ratio > 1
    assert result.low <= result.ratio <= result.high
    firsts = order[::2]
    assert {"ours", "bare"} == set(firsts)
