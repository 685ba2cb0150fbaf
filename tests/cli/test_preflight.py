import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_runtime.cli.preflight import age_warnings
from edge_runtime.clock import WallLabel
from edge_runtime.config import load_config
from edge_runtime.packages import read_manifest
from edge_runtime.protocol import DataClass
from tests.rigs.packages import write_package

Cli = Callable[..., Any]

PROFILE = {
    "power_watts": 25,
    "max_temperature_c": 85,
    "sensor_bandwidth_mbps": 20,
    "link": "metered",
    "response_deadline_ms": 500,
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    write_package(tmp_path / "models" / "tiny")
    (tmp_path / "stills").mkdir()
    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "stills" / "1.png"), noise)
    return {
        "device": {"profile": dict(PROFILE)},
        "models": {"tiny": {"package": "models/tiny"}},
        "cameras": {
            "dock": {
                "source": {"kind": "images", "path": "stills"},
                "model": "tiny",
                "data_class": "internal",
                "rules": [{"name": "busy", "kind": "occupancy", "labels": ["person"]}],
            }
        },
    }


def _write(data: dict[str, Any]) -> Path:
    path = Path("site.yaml")
    path.write_text(json.dumps(data, indent=1))
    return path


def test_a_device_that_may_go(data: dict[str, Any], cli: Cli) -> None:
    outcome = cli("preflight", _write(data), "--cameras", "--timeout", 10)
    assert outcome.err == ""
    assert (outcome.code, outcome.out) == (0, "site.yaml: fit for the field\n")


@pytest.mark.parametrize("name", PROFILE)
def test_a_limit_that_is_not_stated_is_an_error(name: str, data: dict[str, Any], cli: Cli) -> None:
    del data["device"]["profile"][name]
    outcome = cli("preflight", _write(data))
    assert outcome.code == 2
    assert outcome.err == f"error: site.yaml:3: device.profile.{name}: is missing\n"


def test_without_a_profile_all_five_limits_are_named(data: dict[str, Any], cli: Cli) -> None:
    del data["device"]["profile"]
    outcome = cli("preflight", _write(data))
    assert outcome.code == 1
    assert outcome.out == "site.yaml: unfit for the field\n"
    for name in PROFILE:
        assert f"device.profile.{name}: must be stated before the device goes into the field" in outcome.err


def test_packages_labels_classes_and_licences(data: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    write_package(tmp_path / "models" / "strict", data_classes=(DataClass.PUBLIC,), spdx="AGPL-3.0")
    data["models"] |= {"strict": {"package": "models/strict"}, "gone": {"package": "models/gone"}}
    camera = data["cameras"]["dock"]
    data["cameras"]["yard"] = {**camera, "model": "strict", "data_class": "restricted"}
    data["cameras"]["gate"] = {**camera, "model": "gone"}
    camera["rules"] = [{"name": "busy", "kind": "occupancy", "labels": ["preson"]}]
    outcome = cli("preflight", _write(data), "--json")
    assert outcome.code == 1
    answer = json.loads(outcome.out)
    assert answer["fit"] is False
    said = {problem["path"]: problem["text"] for problem in answer["problems"]}
    assert (
        said["cameras.dock.rules[0].labels[0]"] == "the model tiny does not know preson; did you mean person?"
    )
    assert said["cameras.yard.data_class"] == "the model strict may see public, not restricted"
    assert "AGPL-3.0" in said["models.strict.package"]
    assert "no such folder or archive" in said["models.gone.package"]
    assert set(said) == {
        "cameras.dock.rules[0].labels[0]",
        "cameras.yard.data_class",
        "models.strict.package",
        "models.gone.package",
    }


def test_cameras_without_a_class_are_named(data: dict[str, Any], cli: Cli) -> None:
    del data["cameras"]["dock"]["data_class"]
    outcome = cli("preflight", _write(data))
    assert outcome.code == 0
    assert "warning: site.yaml:" in outcome.err
    assert "cameras.dock: has no data_class" in outcome.err


def test_cameras_that_deliver_nothing_or_only_darkness(
    data: dict[str, Any], cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "dark").mkdir()
    cv2.imwrite(str(tmp_path / "dark" / "1.png"), np.zeros((48, 64, 3), np.uint8))
    camera = data["cameras"]["dock"]
    data["cameras"]["yard"] = {**camera, "source": {"kind": "file", "path": "none.mp4"}}
    data["cameras"]["gate"] = {**camera, "source": {"kind": "images", "path": "dark"}}
    path = _write(data)
    assert cli("preflight", path).code == 0
    outcome = cli("preflight", path, "--cameras", "--timeout", 10)
    assert outcome.code == 1
    lines = outcome.err.splitlines()
    assert len(lines) == 2
    assert "cameras.yard.source: camera yard: no picture" in lines[0]
    assert "cameras.gate.source: delivers only dark pictures" in lines[1]


@pytest.mark.parametrize(
    ("released", "limit", "synced", "text"),
    [
        ("2026-01-01", None, True, None),
        ("2026-01-01", 40, True, None),
        ("2026-01-01", 30, True, "the model was released 31 days ago (2026-01-01), more than 30"),
        ("2026-01-01", 30, False, "the clock is not synchronised, so the model's age cannot be judged"),
    ],
)
def test_a_model_ages(
    released: str, limit: int | None, synced: bool, text: str | None, data: dict[str, Any], tmp_path: Path
) -> None:
    write_package(tmp_path / "models" / "old", released=released)
    data["models"]["tiny"]["max_age_days"] = limit
    loaded = load_config(_write(data))
    now = datetime(2026, 2, 1, 12, tzinfo=timezone.utc)
    label = WallLabel(int(now.timestamp()) * 10**9, synced, "boot")
    found = list(age_warnings(loaded, {"tiny": read_manifest(tmp_path / "models" / "old")}, label))
    assert [said for _, said in found] == ([] if text is None else [text])
