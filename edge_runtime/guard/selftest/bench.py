"""A guard with one worker and a motion gate of its own, in a folder that is thrown away, for the self-test."""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.acknowledgement import SIGNED_PREFIX, text_of
from edge_runtime.guard.client import NoGuard, ask, launch
from edge_runtime.guard.conditions import TRAITS, Condition, conditions_in
from edge_runtime.guard.lease import LeaseReader
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.proposals import encode
from edge_runtime.guard.profile import EVERYTHING
from edge_runtime.guard.realtime import run_in_real_time
from edge_runtime.guard.severity import Optional

PERIOD_MS, DEADLINE_MS = 5, 100
"""Of the worker: a beat after each unit of 5 ms; the next one is due within the least time a body should allow."""

DEVICE = "selftest"
_MS = 1_000_000
_PATIENCE_S = 60.0
_IGNORED = ("estop", "estop_disagrees", "battery_missing", "battery_frozen", "pose_stale", "map_stale")
_PRIORITY = 10
"""SCHED_FIFO of the planner and the actuator, below the guard and the gate: load must not hide what passes."""


def _conditions() -> dict[str, dict[str, object]]:
    """What the catalogue lets a body that stands still have otherwise: it has little, and is well again at once."""
    given: dict[str, dict[str, object]] = {
        condition.value: {"clear_ms": 1}
        for condition in conditions_in(EVERYTHING)
        if TRAITS[condition].optional >= Optional.ON_STILL_BODY
    }
    # The worker evaluates this too, and is broken on purpose; what latched for it asks for standstill.
    given[Condition.MOTION_GATE_MISMATCH.value]["trip_ms"] = 60_000
    return given | {name: {"ignored": "the self-test has none"} for name in _IGNORED}


_PROFILE: dict[str, Any] = {
    "name": "selftest",
    "modes": {"work": {"limits": "normal"}},
    "conditions": _conditions(),
    # Thousands of latches, one after the other, are what it is for.
    "repeats": {"latches": 16, "latches_window_ms": 1, "trips": 16, "trips_window_ms": 1},
    "stopped": {"returns": True, "healthy_ms": 100, "longest_ms": 60_000},
    "settle_ms": 50,
    "start_ms": 60_000,
    "stopping": {
        "v_max_m_s": 0,
        "a_brake_m_s2": 1,
        "t_detect_ms": 0,
        "t_gate_ms": 0,
        "t_act_ms": 0,
        "margin_m": 0,
        "free_range_m": 0,
    },
}

_AXIS = {"low": -1, "high": 1, "rise_per_s": 1e6, "step_ms": 100, "window_ms": 200, "window_rise": 1e6}
_MOTION: dict[str, Any] = {
    "axes": {"v_m_s": 0},
    "actions": {"drive": ["v_m_s"]},
    "risky": [],
    "tables": [{"name": "normal", "actions": ["drive"], "axes": {"v_m_s": _AXIS}}],
    "longest_ttl_ms": 200,
    "most_per_s": 1000,
    "refusals": 1000,
    "refusals_ms": 1,
    "states": ["NOMINAL", "DEGRADED"],
    "longest_approval_ms": 1000,
}


class SelfTestFailed(EdgeRuntimeError):
    """The guard of the self-test did not do what it has to."""


class Bench:
    """The guard, its worker, its motion gate, a planner that proposes at 1 kHz, and the actuator.

    Args:
        folder: empty, of its own.
        fault: what the worker does when it is told to break; see `worker`.
        real_time: whether the guard asks for a real-time schedule.
        changes: to the worker's row, by name.

    Attributes:
        received_ns: when the actuator got its last command; CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        folder: Path,
        fault: str,
        *,
        real_time: bool = True,
        changes: Mapping[str, object] | None = None,
    ) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        self._folder, self._fault, self._real_time = folder, fault, real_time
        self._changes = changes or {}
        self._key = Ed25519PrivateKey.generate()
        self._process: subprocess.Popen[bytes] | None = None
        self._gate: int | None = None
        self._lease: LeaseReader | None = None
        self.received_ns = 0
        self._over = threading.Event()
        self._actuator = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._actuator.bind(str(folder / "drive"))
        self._actuator.settimeout(0.1)
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._receive, self._propose)
        ]

    # -- life --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self) -> Iterator["Bench"]:
        """Starts everything, and leaves nothing behind."""
        for thread in self._threads:
            thread.start()
        try:
            self.start()
            yield self
        finally:
            self.close()
            self._over.set()
            for thread in self._threads:
                thread.join(5)
            self._actuator.close()

    def start(self) -> None:
        """Start the guard, and wait until it answers."""
        public = self._key.public_key().public_bytes_raw().hex()
        settings = {
            "device": DEVICE,
            "directory": str(self._folder),
            "control": str(self._folder / "control"),
            "profile": _PROFILE,
            "processes": [self._worker_row(), self._gate_row()],
            "keys": {"selftest": public},
            "configuration": [],
            "hardware_watchdog": None,
            "real_time": self._real_time,
            "arms_itself": False,
        }
        # What it starts outlives it and would hold whoever reads our output.
        self._process = launch(settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait(lambda _: True)

    def close(self) -> None:
        """Kill the guard; what it started ends with it, the motion gate last."""
        if self._lease is not None:
            self._lease.close()
            self._lease = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._gate is not None:  # it lives on, as it should, but not for ever
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._gate, signal.SIGTERM)
            self._gate = None

    def signal_guard(self, number: signal.Signals) -> int:
        """Send the guard a signal; when, on CLOCK_MONOTONIC."""
        if self._process is None:
            raise SelfTestFailed("the guard does not run")
        now_ns = time.monotonic_ns()
        self._process.send_signal(number)
        return now_ns

    # -- states ------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """As the guard tells it."""
        return ask(self._folder / "control", {"ask": "status"}, 5.0)

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status that fulfils a condition.

        Raises:
            SelfTestFailed: there was none for a minute, or the guard ended.
        """
        until, last = time.monotonic() + _PATIENCE_S, None
        while time.monotonic() < until:
            if self._process is not None and self._process.poll() is not None:
                raise SelfTestFailed(f"the guard ended with {self._process.returncode}")
            with contextlib.suppress(NoGuard):
                last = self.status()
                if condition(last):
                    return last
            time.sleep(0.002)
        raise SelfTestFailed(f"the guard did not come to a state that it has to reach: {last}")

    def arm(self) -> None:
        """Whatever is latched, acknowledge it; then arm, and wait until commands pass.

        Raises:
            SelfTestFailed: that was not possible within a minute.
        """
        until, refused = time.monotonic() + _PATIENCE_S, ""
        while True:
            # A worker that starts anew on a busy machine may be late once more, which is another latch.
            status = self.wait(lambda s: s["state"] in ("SAFE", "STANDBY", "NOMINAL") and not _unwell(s))
            if status["state"] == "NOMINAL":
                break
            if time.monotonic() > until:
                raise SelfTestFailed(f"the guard cannot be armed: {refused or ' '.join(status['sentences'])}")
            if status["latch"] is not None:
                # on a machine that is too busy to verify in time the answer is no, as it has to be
                refused = self._acknowledge(status["latch"]["id"])
            else:
                ask(self._folder / "control", {"ask": "arm"})
            time.sleep(0.01)
        self._gate = self.pid("motion-gate")
        if self._lease is None:
            self._lease = self._found_lease()
        began_ns = time.monotonic_ns()
        self.wait(lambda _: self.received_ns > began_ns)

    def pid(self, name: str) -> int:
        """Process id of a worker.

        Raises:
            SelfTestFailed: it has none now.
        """
        found = next(worker["pid"] for worker in self.status()["workers"] if worker["name"] == name)
        if not isinstance(found, int):
            raise SelfTestFailed(f"{name} does not run")
        return found

    def lease_ends_ns(self) -> int:
        """Until when there is or was permission, by the lease that the gate reads; 0 where it was taken away.

        Raises:
            SelfTestFailed: it was never armed.
        """
        lease = None if self._lease is None else self._lease.read()
        if lease is None:
            raise SelfTestFailed("there is no lease to read")
        return lease.expires_ns

    def gate_is_open(self) -> bool:
        """Whether the motion gate passes commands, by its own word; it lives on without the guard.

        Raises:
            SelfTestFailed: it does not answer.
        """
        return bool(self.gate_status()["open"])

    def gate_status(self) -> dict[str, Any]:
        """What the motion gate tells about itself.

        Raises:
            SelfTestFailed: it does not answer.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asker:
            asker.settimeout(5.0)
            asker.bind("")
            try:
                asker.sendto(b'{"status":true}', str(self._folder / "motion"))
                found: dict[str, Any] = json.loads(asker.recv(4096))
            except OSError as error:
                raise SelfTestFailed(f"the motion gate does not answer: {error}") from None
        return found

    def _found_lease(self) -> LeaseReader:
        """The lease as a child would read it: the guard's descriptor, taken from outside."""
        pid = 0 if self._process is None else self._process.pid
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "edge-lease" in str(entry.readlink()):
                    return LeaseReader(os.open(entry, os.O_RDONLY | os.O_CLOEXEC))
        raise SelfTestFailed("the guard has no lease")

    def _acknowledge(self, latch: str) -> str:
        """Why a good acknowledgement was refused; empty where it was not."""
        text = text_of(latch, DEVICE, "selftest", "a fault that was made")
        record = {
            "text": base64.b64encode(text).decode(),
            "key": "selftest",
            "signature": base64.b64encode(self._key.sign(SIGNED_PREFIX + text)).decode(),
        }
        answer = ask(self._folder / "control", {"ask": "acknowledge", "record": record}, 10.0)
        return "" if answer.get("verified") else str(answer.get("text"))

    # -- rows --------------------------------------------------------------------------------------------------

    def _worker_row(self) -> dict[str, Any]:
        module = "edge_runtime.guard.selftest.worker"
        command = [sys.executable, "-m", module, str(PERIOD_MS), str(DEADLINE_MS), self._fault]
        return _row("worker", command) | dict(self._changes)

    def _gate_row(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "device": DEVICE,
            "listen": str(self._folder / "motion"),
            "profile": _MOTION,
            "output": {"kind": "unix", "path": str(self._folder / "drive")},
            "estop": [],
            "approvals": None,
            "real_time": self._real_time,
        }
        command = [sys.executable, "-m", "edge_runtime.guard.motion_gate"]
        return _row("motion-gate", command) | {"settings": settings, "lives_on": True, "longest_ms": 1000}

    # -- threads -----------------------------------------------------------------------------------------------

    def _hasten(self) -> None:
        """Of the calling thread; where the machine does not permit it, what is measured is only larger."""
        if self._real_time:
            run_in_real_time(_PRIORITY)

    def _receive(self) -> None:
        self._hasten()
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                data = self._actuator.recv(4096)
                now_ns = time.monotonic_ns()
                if b'"safe"' not in data:
                    self.received_ns = now_ns

    def _propose(self) -> None:
        self._hasten()
        sequence = 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as planner:
            planner.settimeout(0)
            while not self._over.wait(0.001):
                sequence += 1
                proposal = Proposal(sequence, time.monotonic_ns(), 100 * _MS, "drive", {"v_m_s": 0.1})
                with contextlib.suppress(OSError):  # full, or the gate is not there
                    planner.sendto(encode(proposal), str(self._folder / "motion"))


def _row(name: str, command: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "command": command,
        "after": [],
        "start_ms": 60_000,
        "longest_ms": 1000,
        "restarts": 1000,
        "window_ms": 1000,
        "backoff_ms": 1,
        "settings": None,
        "lives_on": False,
        "critical": True,
        "ends": "never",
        "ring": False,
        "stop_ms": 5000,
    }


def _unwell(status: dict[str, Any]) -> bool:
    own = {Condition.MOTION_GATE_MISMATCH.value, Condition.MOTION_REFUSALS.value}
    # The worker evaluates all there is, and a gate that starts later opens with the permission after that.
    working = all(worker["phase"] == "working" for worker in status["workers"])
    return bool(not working or set(status["tripped"]) - own or status["not_evaluated"])


def dumped(value: object) -> str:
    """JSON as it is printed."""
    return json.dumps(value, indent=2, sort_keys=True)
