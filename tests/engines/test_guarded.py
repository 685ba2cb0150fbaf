"""Runs that begin with a build: under the guard it is part of the start, and a signal ends it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edge_runtime.cli import main
from edge_runtime.engines.holds import Role
from edge_runtime.engines.store import EngineStore
from edge_runtime.packages import ModelPackage
from tests.rigs.cameras import wait_until
from tests.rigs.devices import SYNTHETIC, log_of, running_device, write_device
from tests.rigs.tensorrt_double import Faults
from tests.rigs.tensorrt_double.child import double_folder


@pytest.mark.timeout(300)
def test_the_guard_waits_for_the_build_and_the_status_names_what_runs(
    tmp_path: Path, small: ModelPackage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    double = double_folder(tmp_path / "double", faults=Faults(build_seconds=4))
    monkeypatch.setenv("PYTHONPATH", double.environment()["PYTHONPATH"])
    model = {
        "package": str(small.directory),
        "accept_licences": ["NOASSERTION"],
        "providers": ["tensorrt", "cpu"],
    }
    config = write_device(tmp_path, small.directory, models={"m": model})
    left = EngineStore(tmp_path / "state" / "engines")
    left.hold("gone", "0" * 64, Role.RUNNING)
    left.hold("coming", "1" * 64, Role.ASSIGNED)
    with running_device(config) as device:
        building = device.wait(lambda _: device.worker("perception").get("stage") == "engine")
        assert building["permit"] is False
        device.wait_for_work("perception")
        assert device.worker("perception")["starts"] == 1

        def status() -> dict[str, object]:
            capsys.readouterr()
            main.run(["status", "--json", "--state", str(device.state.path)])
            found: dict[str, object] = json.loads(capsys.readouterr().out)
            return found

        assert wait_until(lambda: status()["models"] is not None, 180)
        assert status()["models"] == [
            {
                "name": "m",
                "backend": "tensorrt 10.3.0",
                "effective": "tensorrt",
                "degraded": None,
                "release": None,
                "given_up": None,
            }
        ]
        assert device.end() == 0
    assert "building an engine" in log_of(config)
    store = EngineStore(device.state.engines)
    (entry,) = store.entries()
    assert [(hold.model, hold.key) for hold in store.holds() if hold.role is Role.RUNNING] == [
        ("m", entry.key)
    ]
    assert store.held("coming", Role.ASSIGNED) is not None
    double.check()


@pytest.mark.timeout(200)
def test_a_signal_during_a_build_ends_the_run_in_order(tmp_path: Path, small: ModelPackage) -> None:
    double = double_folder(tmp_path / "double", faults=Faults(build_seconds=600))
    model = {
        "package": str(small.directory),
        "accept_licences": ["NOASSERTION"],
        "providers": ["tensorrt", "cpu"],
    }
    camera = {"source": SYNTHETIC, "model": "m", "data_class": "public", "rules": []}
    config, summary = tmp_path / "site.yaml", tmp_path / "summary.json"
    config.write_text(yaml.safe_dump({"models": {"m": model}, "cameras": {"yard": camera}}), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "edge_runtime.cli.main", "run", str(config), "--summary", str(summary)],
        env=double.environment() | {"EDGE_RUNTIME_STATE": str(tmp_path / "state")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "Building Engine" in line:
                break
        process.terminate()
        said = process.stderr.read()
        assert process.wait(60) == 0, said
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    assert "the build was called off" in said
    assert json.loads(summary.read_text(encoding="utf-8"))["interrupted"] is True
    assert EngineStore(tmp_path / "state" / "engines").failures.failing_keys() == ()
