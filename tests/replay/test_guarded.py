"""A whole device under its guard, recorded by its own processes, and replayed."""

import os
import signal
from pathlib import Path

import pytest
import yaml

from edge_runtime.guard.memory import State
from edge_runtime.recording import Stream, open_recording
from edge_runtime.replay.player import Component, Wish, replay
from tests.rigs.devices import running_device
from tests.rigs.tiny_detector import tiny_package


def write_site(folder: Path) -> Path:
    tiny_package(folder / "tiny")
    source = {"kind": "synthetic", "fps": 10, "width": 320, "height": 240, "pacing": "camera"}
    rules = [{"kind": "occupancy", "name": "faces", "at_least": 1, "hold": 0.2}]
    document = {
        "models": {"m": {"package": "tiny", "threads": 1, "accept_licences": ["NOASSERTION"]}},
        "cameras": {"yard": {"source": source, "model": "m", "data_class": "public", "rules": rules}},
        "guard": {"monitor": {"temperature": "none", "disk_free": 0, "disk_free_bytes": 0}},
    }
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.trial
def test_a_device_that_is_recorded_replays_as_it_was(tmp_path: Path) -> None:
    config, folder = write_site(tmp_path), tmp_path / "rec"
    with running_device(config, "--state", str(tmp_path / "state"), records=folder) as device:
        device.wait(lambda status: status["state"] == State.NOMINAL.value)
        pid = device.worker("perception")["pid"]
        os.kill(pid, signal.SIGKILL)
        device.wait(lambda status: status["state"] == State.DEGRADED.value)
        device.wait(lambda status: status["state"] == State.NOMINAL.value)
        assert device.end() == 0
    parts = open_recording(folder)
    streams = [part.head.stream for part in parts]
    assert streams == [Stream.CAMERAS, Stream.CAMERAS, Stream.MONITOR]
    found = replay(parts, Wish(Component.DEVICE))
    ends = [standing.why for _, standing in found.standings]
    assert ends == ["cut", "closed", "closed"]
    assert found.frames["yard"] > 50
    assert found.refused == 0
    states = [event.kind for event in found.by[Component.GUARD].events]
    assert states[:3] == ["guard_standby", "guard_nominal", "guard_degraded"]
    assert found.differences() == []
