"""A real guard process over real workers that break on a signal, and a reader of its lease in the test.

The workers are those of the self-test: `edge_runtime/guard/selftest/worker.py` says how they break.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.guard.client import NoGuard, ask, launch
from edge_runtime.guard.lease import LeaseReader

STARTS_S = 30.0
_WORKER = "edge_runtime.guard.selftest.worker"


def worker_row(
    name: str, fault: str = "none", *, period_ms: int = 10, deadline_ms: int = 200
) -> dict[str, Any]:
    """A row of the process table with one of the workers above."""
    return {
        "name": name,
        "command": [sys.executable, "-m", _WORKER, str(period_ms), str(deadline_ms), fault],
        "after": [],
        "start_ms": 20_000,
        "longest_ms": 1000,
        "restarts": 5,
        "window_ms": 60_000,
        "backoff_ms": 1000,
        "settings": None,
        "lives_on": False,
        "critical": True,
        "ends": "never",
        "ring": False,
        "stop_ms": 5000,
    }


@dataclass
class GuardProcess:
    """The guard, asked through its socket as people do.

    Attributes:
        folder: of its latch and its sockets; exists.
        profile: the profile's document.
        rows: the process table's.
        keys: of those who may acknowledge.
        real_time: whether it asks for it.
        configuration: the files that it watches.
        changes: to the settings, by name.
    """

    folder: Path
    profile: dict[str, Any]
    rows: list[dict[str, Any]]
    keys: dict[str, str] = field(default_factory=dict)
    real_time: bool = False
    configuration: list[dict[str, str]] = field(default_factory=list)
    changes: dict[str, object] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    def settings(self) -> dict[str, object]:
        """What it is told."""
        return {
            "device": "robot-1",
            "directory": str(self.folder),
            "control": str(self.folder / "control"),
            "profile": self.profile,
            "processes": self.rows,
            "keys": self.keys,
            "configuration": self.configuration,
            "hardware_watchdog": None,
            "real_time": self.real_time,
            "arms_itself": False,
        } | self.changes

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = launch(self.settings(), stderr=subprocess.PIPE)
        self.wait(lambda _: True)

    def ask(self, **request: object) -> dict[str, Any] | None:
        """One request, and its answer; None where none came."""
        try:
            return ask(self.folder / "control", request)
        except NoGuard:
            return None

    def acknowledge(self, record: object) -> dict[str, Any]:
        """The answer to an acknowledgement; asked for again where a busy machine gave the verifier no time."""
        until = time.monotonic() + 2 * STARTS_S
        while time.monotonic() < until:
            with contextlib.suppress(NoGuard):
                request = {"ask": "acknowledge", "record": record}
                answer = ask(self.folder / "control", request, wait_s=10)
                if not str(answer.get("text")).endswith(("in time", "send it again")):
                    return answer
            time.sleep(0.05)
        raise AssertionError("no acknowledgement was verified in time")

    def status(self) -> dict[str, Any]:
        """As it is told."""
        found = self.ask(ask="status")
        assert found is not None
        return found

    def wait(self, condition: Callable[[dict[str, Any]], bool], within_s: float = STARTS_S) -> dict[str, Any]:
        """The first status that fulfils a condition."""
        until, last = time.monotonic() + within_s, None
        while time.monotonic() < until:
            if self.process is not None and self.process.poll() is not None:
                assert self.process.stderr is not None
                raise AssertionError(f"the guard ended: {self.process.stderr.read().decode()}")
            last = self.ask(ask="status")
            if last is not None and condition(last):
                return last
            time.sleep(0.01)
        raise AssertionError(f"never: {last}")

    def reach(self, state: str, within_s: float = STARTS_S) -> dict[str, Any]:
        """The first status in this state."""
        return self.wait(lambda status: status["state"] == state, within_s)

    def arm(self) -> None:
        """From its start to NOMINAL."""
        self.reach("STANDBY")
        self.ask(ask="arm")
        self.reach("NOMINAL")

    def pid(self, worker: str) -> int:
        """Process id of a worker."""
        found = next(one["pid"] for one in self.status()["workers"] if one["name"] == worker)
        assert isinstance(found, int)
        return found

    def lease(self) -> LeaseReader:
        """The lease as a child would read it: the guard's descriptor, taken from outside."""
        assert self.process is not None
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "edge-lease" in str(entry.readlink()):
                    return LeaseReader(os.open(entry, os.O_RDONLY))
        raise AssertionError("the guard has no lease")

    def end(self) -> int:
        """Ask it to end; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        code = self.process.wait(30)
        self.close()
        return code

    def close(self) -> None:
        """Kill what is left."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stderr is not None:
                self.process.stderr.close()
            self.process = None


@contextlib.contextmanager
def guarded(guard: GuardProcess, *, started: bool = False) -> Iterator[GuardProcess]:
    """Starts it, if the test did not, and leaves nothing behind."""
    try:
        if started:
            guard.wait(lambda _: True)
        else:
            guard.start()
        yield guard
    finally:
        guard.close()
