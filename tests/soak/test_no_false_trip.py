"""The whole device with a body that moves, on a real clip, while other work takes both cores: nothing may trip.

`make soak`; EDGE_SOAK_MINUTES changes how many. The camera, the model and the motion gate are busy all the time.
"""

import contextlib
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runtime.guard.client import ask
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.proposals import encode
from edge_runtime.guard.selftest.trials import busy
from tests.rigs.devices import RunningDevice, running_device, write_device

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("EDGE_SOAK_MINUTES", "10"))
BODIES = Path(__file__).parents[2] / "deploy" / "bodies"
_PERIOD_S = 0.05
_TTL_NS = 150_000_000


class Drive:
    """A planner that proposes at 20 Hz, and what the motion gate lets through."""

    def __init__(self, folder: Path) -> None:
        self.proposed = self.passed = 0
        self.longest_gap_s = 0.0
        self._planner_to = str(folder / "state" / "run" / "motion.sock")
        self._over = threading.Event()
        self._drive = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._drive.bind(str(folder / "drive.sock"))
        self._drive.settimeout(0.1)
        self._last_s: float | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator["Drive"]:
        """Both ends at work."""
        threads = [threading.Thread(target=work, daemon=True) for work in (self._propose, self._receive)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join(5)
            self._drive.close()

    def _propose(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as planner:
            planner.settimeout(0)
            while not self._over.wait(_PERIOD_S):
                self.proposed += 1
                now_ns = time.monotonic_ns()
                values = {"v_m_s": 0.05, "w_rad_s": 0.0}
                with contextlib.suppress(OSError):
                    planner.sendto(
                        encode(Proposal(now_ns, now_ns, _TTL_NS, "drive", values)), self._planner_to
                    )

    def _receive(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                if b'"safe"' in self._drive.recv(4096):
                    continue
                now_s = time.monotonic()
                if self._last_s is not None:
                    self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s)
                self._last_s, self.passed = now_s, self.passed + 1


def _cart(folder: Path, package: Path, clip: Path) -> Path:
    """The example body on a device that looks at a clip for ever."""
    shutil.copy(BODIES / "cart.yaml", folder)
    motion = yaml.safe_load((BODIES / "cart_motion.yaml").read_text(encoding="utf-8"))
    motion["output"] = {"kind": "unix", "path": str(folder / "drive.sock")}
    motion["estop"] = [{"kind": "file", "path": str(folder / "estop")}]
    (folder / "cart_motion.yaml").write_text(yaml.safe_dump(motion), encoding="utf-8")
    (folder / "estop").write_text("0", encoding="ascii")
    guard: dict[str, Any] = {
        "profile": "cart.yaml",
        "motion_gate": "cart_motion.yaml",
        "monitor": {"temperature": "none"},
    }
    source = {"kind": "file", "path": str(clip), "loop": True, "pacing": "camera"}
    return write_device(folder, package, source, guard=guard)


def _armed(device: RunningDevice) -> None:
    device.wait(lambda status: status["state"] == "STANDBY", 90)
    ask(device.state.guard_socket, {"ask": "arm"})
    device.wait(lambda status: status["state"] == "NOMINAL")


def test_nothing_trips_while_both_cores_are_busy(tmp_path: Path, media: Path, yolox_package: Path) -> None:
    config = _cart(tmp_path, yolox_package, media / "vtest.avi")
    drive = Drive(tmp_path)
    states: dict[str, int] = {}
    tripped: dict[str, int] = {}
    with running_device(config) as device, drive.running():
        _armed(device)
        with busy(2):
            until, looks = time.monotonic() + MINUTES * 60, 0
            while time.monotonic() < until:
                status = device.wait(lambda _: True)
                looks += 1
                states[status["state"]] = states.get(status["state"], 0) + 1
                for name in status["tripped"]:
                    tripped[name] = tripped.get(name, 0) + 1
                time.sleep(0.5)
        status = device.wait(lambda _: True)
        changes = status["changes"]
        frames = json.loads((device.state.run / "cameras.json").read_text(encoding="utf-8"))
    print(
        f"\n{looks} looks in {MINUTES:g} min, schedule "
        f"{'fifo' if status['facts'].get('sched_fifo') else 'other'}: states {states}, tripped {tripped}, "
        f"guard late at most {status['late_worst_us'] / 1000:.1f} ms; {drive.passed} of {drive.proposed} commands "
        f"passed, longest gap {drive.longest_gap_s * 1000:.0f} ms; {frames['cameras']}"
    )
    assert status["latch"] is None
    assert all(worker["starts"] == 1 for worker in status["workers"])
    assert set(states) <= {"NOMINAL", "DEGRADED"}, changes
    assert drive.passed > 0.9 * drive.proposed
