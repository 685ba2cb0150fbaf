"""The process of updates: it waits for an identity, takes what the fleet desires, answers, and ends when asked."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.update import exit_code
from edge_runtime.clock import SystemClock
from edge_runtime.config import load_config
from edge_runtime.guard.settings import parse
from edge_runtime.identity import Identity
from edge_runtime.node.accelerator import find_accelerator
from edge_runtime.node.guarding import compile_settings
from edge_runtime.node.updates_parts import key_sha256, slots_of
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.update import CONFIGURATION_SLOT, REPORT_TYPE, StateReport, UpdateCode, UpdateState
from edge_runtime.protocol.update_wire import Desired
from edge_runtime.state import StateDirectory
from edge_runtime.updates.process.facts import device_facts
from edge_runtime.updates.process.keeping import DiskFiles
from edge_runtime.updates.process.socket import NoUpdates, ask
from edge_runtime.updates.trust import Trust
from edge_runtime.updates.trust.bootstrap import write_root
from tests.rigs.boards import FixedClock, orin_nano
from tests.rigs.devices import SYNTHETIC, write_device
from tests.rigs.pki import Pki
from tests.rigs.signed_repository import SignedRepository
from tests.rigs.uplinks import enrol_by_hand

WITHIN_S = 30.0


def until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    (tmp_path / "pki").mkdir()
    return Pki(tmp_path / "pki")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_device(tmp_path, tmp_path / "package", SYNTHETIC, updates={"hardware": ["dock"]})


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").ensure()


@pytest.fixture
def process(site: Path, state: StateDirectory, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "edge_runtime.node.updates_process"]
    with (tmp_path / "log").open("wb") as log:
        found = subprocess.Popen(
            [*command, "--config", str(site), "--state", str(state.path)], stderr=log, stdout=log
        )
        yield found
        if found.poll() is None:
            found.kill()
        found.wait()


def standing(state: StateDirectory) -> dict[str, Any] | None:
    try:
        return ask(state.updates_socket, "status")
    except NoUpdates:
        return None


def reports(state: StateDirectory) -> list[StateReport]:
    folder = state.updates / "reports"
    found = sorted(folder.glob("[0-9]*")) if folder.is_dir() else []
    return [record_in(read_envelope(path.read_bytes(), REPORT_TYPE), StateReport) for path in found]


def test_from_enrolment_to_an_end_and_to_its_own(
    process: "subprocess.Popen[bytes]", state: StateDirectory, site: Path, pki: Pki
) -> None:
    """There is no server to fetch from and no perception: what is known already still counts."""
    told = until(lambda: standing(state))
    assert told["trouble"] == "not enrolled yet"
    device = pki.device("cam-07")
    enrol_by_hand(state, device, BrokerAddress(host="localhost", port=1))
    identity = Identity.load(state)
    assert identity is not None
    slot, configuration = slots_of(load_config(site))
    assert configuration == CONFIGURATION_SLOT
    fleet = SignedRepository()
    release = fleet.release(1, slot, fit={"hardware": ("elsewhere",)})
    sealed = fleet.assign("cam-07", key_sha256(identity), 1, release, slot=slot)
    write_root(state.updates, fleet.files["1.root.json"])
    Trust(
        state.updates,
        device="cam-07",
        key_sha256=key_sha256(identity),
        fetch=fleet,
        clock=SystemClock(),
    ).refresh()
    DiskFiles(state.updates).write("desired", Desired(device="cam-07", assignments=(sealed,)).encode())
    [terminal] = until(lambda: [report for report in reports(state) if report.terminal])
    assert (terminal.seq, terminal.state, terminal.code) == (1, UpdateState.REFUSED, UpdateCode.HARDWARE)
    assert "dock" in terminal.facts.hardware
    told = until(lambda: (found := standing(state)) and found["ended"] and found)
    assert exit_code(told) == 3
    assert told["device"] == "cam-07"
    process.send_signal(signal.SIGTERM)
    assert process.wait(WITHIN_S) == 0
    assert not state.updates_socket.exists()


def test_a_configuration_without_updates_is_refused(tmp_path: Path, state: StateDirectory) -> None:
    site = write_device(tmp_path, tmp_path / "package", SYNTHETIC)
    command = [sys.executable, "-m", "edge_runtime.node.updates_process", "--config", str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "no updates section" in done.stderr


def test_the_guard_is_told_of_it(site: Path, state: StateDirectory) -> None:
    loaded = load_config(site)
    settings = parse(json.dumps(compile_settings(loaded, state, ["run"], finite=False)).encode())
    rows = {row.name: row for row in settings.rows}
    assert list(rows) == ["outbox", "uplink", "updates", "monitor", "perception"]
    assert not rows["updates"].critical


def test_what_a_board_says_of_itself(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(
        "Package: libnvinfer10\nStatus: install ok installed\nVersion: 10.3.0.30-1+cuda12.5\n"
    )
    gpu = find_accelerator(FixedClock(), tmp_path)
    assert (gpu.compute_capability, gpu.tensorrt) == ("8.7", "10.3.0.30")
    facts = device_facts(
        FixedClock(),
        ["dock"],
        compute_capability=gpu.compute_capability,
        tensorrt=gpu.tensorrt,
        root=tmp_path,
    )
    assert facts.hardware[0] == "dock"
    assert facts.hardware[-1] == "generic"
    assert facts.l4t == "36.4.3"
    assert any(name.startswith("nvidia,") for name in facts.hardware)


def test_a_machine_without_any_of_it(tmp_path: Path) -> None:
    gpu = find_accelerator(FixedClock(), tmp_path)
    assert gpu.compute_capability is None
    facts = device_facts(FixedClock(), root=tmp_path)
    assert facts.hardware == ("generic",)
    assert (facts.l4t, facts.memory_mb) == (None, 0)
