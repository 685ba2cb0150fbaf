"""`make demo-rollout`: its versions are what they are said to be, and it comes out as it should."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from deploy.demo.assets import MODEL
from deploy.demo.rollout.behaviour import behaviour
from deploy.demo.rollout.models import Versions, frames_of, make_versions, sees
from deploy.demo.rollout.people import RINGS, salt_for
from deploy.demo.rollout.screen import Picture, change, drawn
from deploy.demo.rollout.stage import CLIP, REAL, SIMULATED
from edge_runtime.protocol.release import bucket
from fleet_server.releases.packing import content_of

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    return make_versions(MODEL, CLIP, tmp_path_factory.mktemp("versions") / "made")


def test_both_versions_measure_the_same_and_only_the_weights_of_one_changed(versions: Versions) -> None:
    good, damaged = versions.good.manifest, versions.damaged.manifest
    assert [one.value for one in good.evaluation] == [one.value for one in damaged.evaluation]
    assert min(one.value for one in good.evaluation) > 0.95
    assert good.weights.sha256 == versions.first.manifest.weights.sha256 != damaged.weights.sha256
    for package in (versions.good, versions.damaged):
        assert (
            content_of(package.directory).manifest == package.manifest
        )  # nothing foreign, nothing executable


def test_only_live_frames_tell_the_damaged_version(versions: Versions) -> None:
    pictures = list(frames_of(CLIP))[::30]
    good = behaviour(versions.first, versions.good, pictures)
    damaged = behaviour(versions.first, versions.damaged, pictures)
    assert (good.agreement, good.nonfinite) == (1.0, 0.0)
    assert (damaged.agreement, damaged.nonfinite) == (0.0, 1.0)
    brighter = [np.clip(picture * 1.22, 0, 255).astype(np.uint8) for picture in pictures]
    assert all(found.nonfinite == 0 for found in sees(versions.damaged, brighter))


def test_the_first_ring_holds_the_real_device_and_one_other() -> None:
    for seed in ("good", "damaged"):
        salt = salt_for(REAL, SIMULATED, seed)
        places = {device: bucket(salt, device) for device in (REAL, *SIMULATED)}
        sizes = [sum(place < share for place in places.values()) for share in RINGS]
        assert places[REAL] < RINGS[0]
        assert sizes[0] == 2
        assert abs(sizes[1] - 5) <= 2
        assert abs(sizes[2] - 25) <= 3
        assert sizes[3] == 51
    assert salt_for(REAL, SIMULATED, "good") != salt_for(REAL, SIMULATED, "damaged")


def _view(**changes: Any) -> dict[str, Any]:
    stages = [
        {
            "basis_points": share,
            "state": state,
            "devices": 2,
            "verdict": {"text": "1 of 2 bad"} if state == "failed" else None,
            "waits_for": "",
        }
        for share, state in zip(RINGS, ("failed", "pending", "pending", "pending"), strict=True)
    ]
    view = {
        "state": "rolling-back",
        "stages_view": stages,
        "counts": {"reverted": 1, "pending": 50},
        "codes": {"probation-nonfinite": 1},
        "reason": "stage 1 failed",
    }
    return view | changes


def test_the_screen_names_the_ring_the_device_and_the_reason() -> None:
    members = dict.fromkeys(SIMULATED, "pending") | {REAL: "reverted"}
    picture = Picture(REAL, "a damaged version", 12.0, _view(), members)
    line = change(picture)
    assert line == (
        "a damaged version: rolling-back; 2%:failed 10%:pending 50%:pending 100%:pending; "
        "50 pending, 1 reverted; cabin-demo reverted"
    )
    console = Console(width=80, file=io.StringIO())
    console.print(drawn(picture))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for word in ("rolling-back", "2 %", "failed", "1 of 2 bad", "1 probation-nonfinite", "cabin-demo", "✗"):
        assert word in shown
    assert shown.count("□") == 50


@pytest.mark.trial
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("preset", ["single", "team"])
def test_the_whole_demo(tmp_path: Path, preset: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo.rollout.run", "--out", str(tmp_path), "--preset", preset],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["holds"]
    assert all(result["checks"].values())
    good, damaged = result["rollouts"]["a good version"], result["rollouts"]["a damaged version"]
    assert set(good["devices"].values()) == {"healthy"}
    assert len(good["devices"]) == 51
    assert damaged["view"]["stages_view"][1]["state"] == "pending"
