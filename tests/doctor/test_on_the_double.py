"""The doctor, and the check of a Jetson, on the stand-in for TensorRT and CUDA: a device as it should be."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.doctor.test_models import site
from tests.rigs.tensorrt_double import DoubleFolder, Faults, double_folder

PROVIDERS = "[tensorrt, cpu]"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def double(tmp_path: Path) -> DoubleFolder:
    return double_folder(tmp_path / "double", "10.3.0")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with the engine of `site`, built on such a device."""
    folder = tmp_path_factory.mktemp("built")
    own = double_folder(folder / "double", "10.3.0")
    done = edge_runtime(own, "engine", "build", site(folder, PROVIDERS), "--state", folder / "state")
    assert done.returncode == 0, done.stderr
    own.check()
    return folder / "state"


def edge_runtime(double: DoubleFolder, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime.cli.main", *map(str, arguments)],
        env=double.environment(),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def judged(double: DoubleFolder, config: Path, state: Path, *more: object) -> tuple[int, dict[str, Any]]:
    done = edge_runtime(double, "doctor", config, "--state", state, "--json", *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def complaints(record: dict[str, Any], part: str) -> list[str]:
    return [
        item["text"] for item in record["findings"] if item["part"] == part and item["severity"] == "error"
    ]


def test_an_engine_is_asked_for_before_and_not_built_by_looking(
    double: DoubleFolder, built: Path, tmp_path: Path
) -> None:
    config, state = site(tmp_path, PROVIDERS), tmp_path / "state"
    code, record = judged(double, config, state)
    assert code == 1
    said = complaints(record, "models")
    assert len(said) == 1
    assert (
        "faces asks for TensorRT and is run by the CPU: tensorrt: no engine is built for it on this"
        in said[0]
    )
    assert not (state / "engines").exists()
    shutil.copytree(built, state)
    code, record = judged(double, config, state)
    assert (code, record["well"]) == (0, True), record["findings"]
    assert record["facts"]["models"]["faces"]["effective"] == "tensorrt"
    assert record["facts"]["models"]["faces"]["version"] == "10.3.0"
    double.check()
    assert {process["left"] for process in double.ended()} == {"nothing"}


def test_a_damaged_engine_is_told_and_the_cpu_named(
    double: DoubleFolder, built: Path, tmp_path: Path
) -> None:
    config, state = site(tmp_path, PROVIDERS), shutil.copytree(built, tmp_path / "state")
    double.set_faults(Faults(deserialise_fails=9))
    code, record = judged(double, config, state)
    assert code == 1
    assert complaints(record, "models")[0].startswith(
        "faces asks for TensorRT and is run by the CPU: tensorrt: "
    )


def test_a_device_that_hangs_is_given_up(double: DoubleFolder, built: Path, tmp_path: Path) -> None:
    config, state = site(tmp_path, PROVIDERS), shutil.copytree(built, tmp_path / "state")
    double.set_faults(Faults(hang_from=1, hang_seconds=600.0))
    code, record = judged(double, config, state, "--timeout", 4)
    assert code == 1
    assert complaints(record, "models")[0].startswith(
        "faces does not open: it was not open within 4 s and was given up: give more with --timeout"
    )


def test_the_check_of_a_jetson_passes_on_a_device_that_has_all(double: DoubleFolder, tmp_path: Path) -> None:
    config = site(tmp_path, "[cpu]")
    done = subprocess.run(
        ["sh", str(REPOSITORY / "deploy/jetson/check.sh"), sys.prefix, str(config)],
        env={**double.environment(), "EDGE_RUNTIME_STATE": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("TensorRT 10.3.0, cuda.bindings ")
    assert done.stdout.splitlines()[-1].endswith(": well")
    assert "check: all is well" in done.stderr
    double.check()
