"""A device under its guard, as its user runs it: the processes, what befalls them, and how it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.state import StateDirectory
from sim.ports import free_port
from tests.rigs.cameras import wait_until
from tests.rigs.devices import log_of, running_device, write_device
from tests.rigs.outbox import client, process
from tests.rigs.pki import Pki
from tests.rigs.uplinks import enrol_by_hand

EVERYBODY = ("outbox", "uplink", "monitor", "perception")


def accepted(state: StateDirectory) -> int:
    with contextlib.closing(client(state)) as outbox:
        return outbox.status().ledger.accepted


def test_a_device_that_cannot_move_arms_itself_and_survives_what_befalls_its_processes(
    tmp_path: Path, yolox_package: Path
) -> None:
    config = write_device(tmp_path, yolox_package)
    with running_device(config) as device:
        device.wait_for_work(*EVERYBODY)
        status = device.wait(lambda s: s["state"] == "NOMINAL")
        assert status["latch"] is None
        before = {row["name"]: row["pid"] for row in status["workers"]}
        assert wait_until(lambda: accepted(device.state) > 0, 20)
        for name in EVERYBODY:
            os.kill(before[name], signal.SIGKILL)
        after = device.wait(
            lambda s: all(row["phase"] == "working" and row["starts"] == 2 for row in s["workers"])
        )
        assert not {row["pid"] for row in after["workers"]} & set(before.values())
        device.wait(lambda s: s["state"] == "NOMINAL")
        pids = device.pids()
        assert device.end() == 0
        assert not any(psutil.pid_exists(pid) for pid in pids)
    with process(device.state), contextlib.closing(client(device.state)) as outbox:
        ledger = outbox.status().ledger
        assert ledger.balances
        assert ledger.accepted == ledger.queued > 0


def test_a_hung_perception_is_seen_and_replaced(tmp_path: Path, yolox_package: Path) -> None:
    config = write_device(tmp_path, yolox_package)
    with running_device(config) as device:
        device.wait(lambda s: s["state"] == "NOMINAL")
        pid = device.worker("perception")["pid"]
        os.kill(pid, signal.SIGSTOP)
        device.wait(lambda s: s["state"] == "DEGRADED")
        device.wait(lambda s: s["state"] == "NOMINAL", 60)
        assert device.worker("perception")["pid"] != pid
        assert not psutil.pid_exists(pid)


def test_a_recording_ends_the_run_with_everything_in_the_outbox(
    tmp_path: Path, media: Path, yolox_package: Path
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi")}
    config = write_device(tmp_path, yolox_package, source)
    summary = tmp_path / "summary.json"
    with running_device(config, "--max-frames", "30", "--summary", str(summary)) as device:
        assert device.process.wait(90) == 0
    found = json.loads(summary.read_text(encoding="utf-8"))
    assert found["frames"] == 30
    assert not found["delivery"]["enrolled"]
    outbox = found["delivery"]["outbox"]
    assert outbox["accepted"] == outbox["queued"]
    assert found["delivery"]["restarts"] == dict.fromkeys(EVERYBODY, 0)
    assert "not enrolled" in log_of(config)
    assert "ready" not in log_of(config).split("\n")  # who is guarded has no ready line


def test_a_device_that_reaches_no_broker_says_so(tmp_path: Path, yolox_package: Path) -> None:
    config = write_device(tmp_path, yolox_package)
    state = StateDirectory(tmp_path / "state").ensure()
    authority = Pki(tmp_path / "pki")
    enrol_by_hand(state, authority.device("cam-1"), BrokerAddress(host="localhost", port=free_port()))
    summary = tmp_path / "summary.json"
    with running_device(config, "--summary", str(summary)) as device:
        device.wait(lambda s: "link_lost" in s["tripped"])
        device.wait_for_work(*EVERYBODY)
        assert wait_until(lambda: accepted(device.state) > 0, 20)
        assert device.end(signal.SIGINT) == 0
    server = json.loads(summary.read_text(encoding="utf-8"))["delivery"]["server"]
    assert server["state"] == "cut_off"
    assert server["why"] == "no connection: Connection refused; the server never answered this device"


def test_the_death_of_the_guard_ends_its_workers(tmp_path: Path, yolox_package: Path) -> None:
    config = write_device(tmp_path, yolox_package)
    with running_device(config) as device:
        device.wait_for_work(*EVERYBODY)
        pids = device.pids()
        device.process.kill()
        assert wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 30)
    with running_device(config) as device:  # nothing that is left keeps the next one from starting
        device.wait(lambda s: s["state"] == "NOMINAL")


@pytest.mark.parametrize(
    ("guard", "says"),
    [
        ({"profile": "missing.yaml"}, "missing.yaml: cannot be read: No such file or directory"),
        ({"profile": "body.yaml"}, "body.yaml: profile.name: is missing"),
        ({"motion_gate": "gate.json"}, "gate.json: a motion gate needs guard.profile"),
        ({"keys": {"ada": "abc"}}, "guard.keys.ada"),
    ],
)
def test_what_the_guard_cannot_use_is_one_sentence(
    tmp_path: Path, yolox_package: Path, guard: dict[str, object], says: str
) -> None:
    (tmp_path / "body.yaml").write_text("modes: {}\n", encoding="utf-8")
    (tmp_path / "gate.json").write_text("{}", encoding="utf-8")
    config = write_device(tmp_path, yolox_package, guard=guard)
    found = subprocess.run(
        [sys.executable, "-m", "edge_runtime.cli.main", "run", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 2
    assert says in found.stderr
    assert "Traceback" not in found.stderr


def test_a_model_that_is_not_there_ends_the_run_with_its_sentence(tmp_path: Path) -> None:
    config = write_device(tmp_path, tmp_path / "nowhere")
    found = subprocess.run(
        [sys.executable, "-m", "edge_runtime.cli.main", "run", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 2
    assert "nowhere" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_device_without_delivery_is_guarded_too(tmp_path: Path, yolox_package: Path) -> None:
    config = write_device(tmp_path, yolox_package, guard={"real_time": False})
    data = yaml.safe_load(config.read_text(encoding="utf-8"))
    del data["delivery"]
    config.write_text(yaml.safe_dump(data), encoding="utf-8")
    place = tmp_path / "elsewhere"
    with running_device(config, "--state", str(place), state=place) as device:
        status = device.wait(lambda s: s["state"] == "NOMINAL")
        assert {row["name"] for row in status["workers"]} == {"monitor", "perception"}
        assert device.end() == 0
