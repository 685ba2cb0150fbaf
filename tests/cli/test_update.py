"""`edge-runtime update`: what a person reads of a device whose updates run, do not run, or went wrong."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.update import exit_code, status_lines
from edge_runtime.state import StateDirectory
from edge_runtime.updates.process.socket import UpdatesSocket
from edge_runtime.updates.process.standing import of_driver
from edge_runtime.updates.trust.bootstrap import check_root
from tests.cli.conftest import Cli
from tests.rigs.signed_repository import SignedRepository
from tests.rigs.updating_device import UpdatingDevice, behave


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").ensure()


@pytest.fixture
def device(state: StateDirectory) -> UpdatingDevice:
    """A device whose first release was kept and whose second one was taken back."""
    found = UpdatingDevice(state.updates)
    found.run_to_end(found.assign(found.release(1)))
    bad = found.release(2, shadow={"seconds": 0})
    behave(found, bad, nonfinite=0.5)
    found.run_to_end(found.assign(bad))
    return found


@pytest.fixture
def answering(state: StateDirectory, device: UpdatingDevice) -> Iterator[None]:
    """Its process answers."""
    driver = device.driver
    assert driver is not None
    told = of_driver(driver)
    listening = UpdatesSocket(state.updates_socket, lambda _ask: told)
    ending = threading.Event()

    def serve() -> None:
        while not ending.wait(0.01):
            listening.serve()

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    ending.set()
    thread.join()
    listening.close()


def test_a_release_that_was_taken_back_is_told_by_the_exit_code(
    cli: Cli, state: StateDirectory, answering: None
) -> None:
    done = cli("update", "status", "--state", state.path)
    assert done.code == 3
    assert (
        "#2 install models/detector/2/bundle.json  reverted, left reverted: probation-nonfinite" in done.out
    )
    assert "healthy, left updated" in done.out
    told = json.loads(cli("update", "status", "--state", state.path, "--json").out)
    assert told["running"]
    assert told["unsettled"] == [1, 2]
    assert told["slots"]["detector"]["on_trial"] is False
    assert [one["state"] for one in told["ended"]] == ["healthy", "reverted"]


def test_where_nothing_runs_the_disk_is_told(cli: Cli, state: StateDirectory, device: UpdatingDevice) -> None:
    done = cli("update", "status", "--state", state.path)
    assert done.code == 1
    assert "updates do not run here" in done.out
    assert "reverted" in done.out
    told = json.loads(cli("update", "status", "--state", state.path, "--json").out)
    assert told["unsettled"] == [1, 2], "the same as of one that runs"


def test_history_needs_nothing_that_runs(cli: Cli, state: StateDirectory, device: UpdatingDevice) -> None:
    done = cli("update", "history", "--state", state.path)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["#1", "#2"]
    told = json.loads(cli("update", "history", "--state", state.path, "--json").out)
    assert [one["left"] for one in told["ended"]] == ["updated", "reverted"]


def test_nothing_yet(cli: Cli, state: StateDirectory) -> None:
    assert cli("update", "history", "--state", state.path).out == "no assignment has ended here\n"
    assert cli("update", "status", "--state", state.path).code == 1


def test_a_lock_is_set_told_and_removed(cli: Cli, state: StateDirectory) -> None:
    done = cli("update", "lock", "demo", "--reason", "visitors", "--state", state.path)
    assert done.code == 0
    assert "locked by demo: visitors" in cli("update", "status", "--state", state.path).out
    assert cli("update", "unlock", "demo", "--state", state.path).out == "unlocked\n"
    assert cli("update", "unlock", "demo", "--state", state.path).code == 1
    assert cli("update", "lock", "../x", "--reason", "r", "--state", state.path).code == 2


def test_a_root_is_given_and_another_only_on_demand(cli: Cli, state: StateDirectory, tmp_path: Path) -> None:
    first, second = (SignedRepository().files["1.root.json"] for _ in range(2))
    for name, data in (("first", first), ("second", second), ("rubbish", b"{}")):
        (tmp_path / f"{name}.json").write_bytes(data)
    told = cli("update", "trust", tmp_path / "first.json", "--state", state.path)
    assert told.code == 0
    assert f"root 1, fingerprint {check_root(first).fingerprint[:32]}\n" in told.out
    assert cli("update", "trust", tmp_path / "second.json", "--state", state.path).code == 1
    assert cli("update", "trust", tmp_path / "rubbish.json", "--state", state.path, "--replace").code == 1
    assert cli("update", "trust", tmp_path / "absent.json", "--state", state.path).code == 2
    assert (state.updates / "root.json").read_bytes() == first
    replaced = cli("update", "trust", tmp_path / "second.json", "--state", state.path, "--replace", "--json")
    said = json.loads(replaced.out)
    assert (said["version"], said["fingerprint"]) == (1, check_root(second).fingerprint)
    assert (state.updates / "root.json").read_bytes() == second


def standing(**changes: Any) -> dict[str, Any]:
    return {"running": True, "slots": {}, "works": [], "ended": [], **changes}


def ended(seq: int, state: str, left: str, slot: str = "a") -> dict[str, Any]:
    return {
        "seq": seq,
        "slot": slot,
        "action": "install",
        "target": None,
        "state": state,
        "left": left,
        "code": None,
        "text": "",
    }


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (standing(), 0),
        (standing(running=False), 1),
        (standing(ended=[ended(1, "reverted", "reverted"), ended(2, "healthy", "updated")]), 0),
        (standing(ended=[ended(1, "healthy", "updated"), ended(2, "refused", "unchanged")]), 3),
        (standing(ended=[ended(1, "refused", "unchanged"), ended(2, "healthy", "updated", "b")]), 3),
        (standing(ended=[ended(1, "reverted", "inconsistent")]), 4),
    ],
)
def test_exit_codes(found: dict[str, Any], code: int) -> None:
    assert exit_code(found) == code


def test_what_is_under_way_says_why_it_waits() -> None:
    work = {
        "seq": 9,
        "slot": "a",
        "action": "install",
        "target": "models/a/2/bundle.json",
        "state": "waiting",
        "for_s": 61,
        "code": "in-motion",
        "text": "the robot is armed",
    }
    lines = status_lines(
        standing(works=[work], window_open=False, waiting=[{"seq": 10, "code": "clock", "text": "1970"}])
    )
    assert lines == [
        "#9 install models/a/2/bundle.json  waiting for 61 s: in-motion, the robot is armed",
        "#10 is not taken up yet: clock, 1970",
        "window    closed",
    ]
