"""A cart that drives: the example body on a whole device, commissioned with the commands that a person uses."""

import contextlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from edge_runtime.guard.client import NoGuard, ask
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.proposals import encode
from tests.rigs.devices import RunningDevice, write_device

BODIES = Path(__file__).parents[2] / "deploy" / "bodies"
_PERIOD_S = 0.05
_TTL_NS = 150_000_000


class Drive:
    """A planner that proposes at 20 Hz, and what the motion gate lets through."""

    def __init__(self, folder: Path) -> None:
        self.proposed = self.passed = 0
        self.longest_gap_s = 0.0
        self._planner_to = str(folder / "state" / "run" / "motion.sock")
        self._guard = folder / "state" / "run" / "guard.sock"
        self._over = threading.Event()
        self._drive = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._drive.bind(str(folder / "drive.sock"))
        self._drive.settimeout(0.1)
        self._last_s: float | None = None

    def begin(self) -> None:
        """Count from now on."""
        self.proposed = self.passed = 0
        self.longest_gap_s = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator["Drive"]:
        """Both ends at work."""
        threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._propose, self._receive, self._stand_still)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join(5)
            self._drive.close()

    def _stand_still(self) -> None:
        """The wheels' own sensor, as an adapter tells it: good for half a second each time."""
        while not self._over.wait(0.1):
            with contextlib.suppress(NoGuard):
                ask(self._guard, {"ask": "standstill", "moves": False})

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


def write_cart(folder: Path, package: Path, source: Mapping[str, Any], **monitor: Any) -> Path:
    """The configuration of the example body with a key of ada's, a drive, and a released emergency stop."""
    shutil.copy(BODIES / "cart.yaml", folder)
    motion = yaml.safe_load((BODIES / "cart_motion.yaml").read_text(encoding="utf-8"))
    motion["output"] = {"kind": "unix", "path": str(folder / "drive.sock")}
    motion["estop"] = [{"kind": "file", "path": str(folder / "estop")}]
    motion["profile"]["refusals"] = 100  # a busy machine may hold the planner of a test up
    (folder / "cart_motion.yaml").write_text(yaml.safe_dump(motion, sort_keys=False), encoding="utf-8")
    (folder / "estop").write_text("0", encoding="ascii")
    printed = _command("guard", "key", "new", str(folder / "ada.key"))
    guard = {
        "profile": "cart.yaml",
        "motion_gate": "cart_motion.yaml",
        "keys": {"ada": printed.split("ada: ")[1].strip()},
        "monitor": {"temperature": "none", **monitor},
    }
    return write_device(folder, package, source, guard=guard)


def commission(device: RunningDevice, folder: Path) -> None:
    """A new body is latched, because nobody knows what was before: somebody looks at it, signs, and arms it."""
    status = device.wait(lambda found: found["latch"] is not None and not found["not_evaluated"])
    acknowledge(device, folder, status["latch"]["id"])
    arm(device)


def arm(device: RunningDevice) -> None:
    """Permit motion once it is ready for that."""
    device.wait(lambda found: found["state"] == "STANDBY")
    _command("guard", "arm", "--state", str(device.state.path))
    device.wait(lambda found: found["state"] == "NOMINAL")


def acknowledge(device: RunningDevice, folder: Path, latch: str) -> None:
    """Sign with ada's key that it is safe to go on; again while what led to the latch is not clear long enough."""
    place = ("--state", str(device.state.path))
    words = (
        "guard",
        "ack",
        "--latch",
        latch,
        "--key",
        str(folder / "ada.key"),
        "--note",
        "looked at it",
        *place,
    )
    until = time.monotonic() + 60
    while (done := _run(*words)).returncode != 0:
        assert "not clear" in done.stderr, done.stderr
        assert time.monotonic() < until, done.stderr
        time.sleep(0.5)


def _command(*words: str) -> str:
    done = _run(*words)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
