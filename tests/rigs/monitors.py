"""The monitor's real process, with the test in the guard's place: it holds the page and the flight ring."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from edge_runtime.guard.page import Page
from edge_runtime.guard.ring import Kind, RingWriter
from edge_runtime.guard.slot import Beat
from edge_runtime.lifeline import told_parent
from edge_runtime.monitor.flight import FLIGHT, Damage, FlightRecord, read_flight
from edge_runtime.state import StateDirectory

MONITOR = "monitor"
STARTS_S = 60.0
LATCH = "00112233"


def write_configuration(folder: Path, monitor: Mapping[str, Any], *, delivers: bool = False) -> Path:
    """A configuration whose state lies below the folder; its file."""
    config: dict[str, Any] = {
        "models": {"m": {"package": "absent", "threads": 1}},
        "cameras": {"yard": {"source": {"kind": "synthetic"}, "model": "m", "data_class": "public"}},
        "guard": {"monitor": {"temperature": "none", "disk_free_bytes": 0, **monitor}},
    }
    if delivers:
        config["delivery"] = {"policy": "policy.yaml"}
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def command_of(configuration: Path, state: Path) -> list[str]:
    """The process's command line."""
    module = "edge_runtime.node.monitor_process"
    return [sys.executable, "-m", module, "--config", str(configuration), "--state", str(state)]


class MonitorRig:
    """A monitor, and what its guard would have.

    Args:
        folder: of the configuration.
        state: made where it is missing.
        monitor: settings.
        delivers: whether there is a section about delivery.
        ring_slots: of the flight ring.
        environment: of the process, besides this one's.
    """

    def __init__(
        self,
        folder: Path,
        state: Path,
        monitor: Mapping[str, Any],
        *,
        delivers: bool = False,
        ring_slots: int = 4096,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.configuration = write_configuration(folder, monitor, delivers=delivers)
        self.state = StateDirectory(state).ensure()
        self.page, self.ring = Page([MONITOR]), RingWriter(ring_slots)
        self._environment = dict(environment or {})
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, and wait for its first beat."""
        slot = self.page.slot(MONITOR)
        slot.prepare()
        page, (fds, variables) = self.page.handover(MONITOR), self.ring.handover()
        self.process = subprocess.Popen(
            command_of(self.configuration, self.state.path),
            pass_fds=(*page.pass_fds, *fds),
            env={**told_parent(os.environ), **self._environment, **page.environment, **variables},
            stderr=subprocess.PIPE,
            text=True,
        )
        slot.expect(self.process.pid)
        self.wait_beat(lambda beat: True, STARTS_S)

    def beat(self) -> Beat | None:
        """The newest one."""
        return self.page.slot(MONITOR).read().beat

    def wait_beat(self, condition: Callable[[Beat], bool], within_s: float = 20.0) -> Beat:
        """The first beat that fulfils a condition."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if self.process is not None and self.process.poll() is not None:
                assert self.process.stderr is not None
                raise AssertionError(f"the monitor ended: {self.process.stderr.read()}")
            beat = self.beat()
            if beat is not None and condition(beat):
                return beat
            time.sleep(0.005)
        raise AssertionError(f"never: {self.beat()}")

    def longest_gap_s(self, for_s: float) -> float:
        """Watch beats for a while; the longest time between two of them."""
        until, longest, last = time.monotonic() + for_s, 0, self.wait_beat(lambda beat: True)
        while time.monotonic() < until:
            beat = self.wait_beat(lambda found, last=last: found.sequence > last.sequence)  # type: ignore[misc]
            longest, last = max(longest, beat.beat_ns - last.beat_ns), beat
        return longest / 1e9

    def change(self, before: str, state: str, *causes: str) -> None:
        """What the guard writes when its state changes."""
        told = {"before": before, "state": state, "causes": list(causes), "latch": LATCH if causes else None}
        self.ring.append(Kind.CHANGE, time.monotonic_ns(), json.dumps(told).encode())

    def flight(self) -> tuple[list[FlightRecord], Damage]:
        """What is in the flight recorder now."""
        return flight_of(self.state)

    def wait_flight(
        self, condition: Callable[[list[FlightRecord]], bool], within_s: float = 20.0
    ) -> list[FlightRecord]:
        """The recorder's content once it fulfils a condition."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            records, _ = self.flight()
            if condition(records):
                return records
            time.sleep(0.02)
        raise AssertionError(f"never: {[record.kind for record in self.flight()[0]][-50:]}")

    def signal(self, number: signal.Signals) -> int:
        """Send a signal, and wait for the end; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(30)
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.process = None
        return code

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process is not None:
            self.signal(signal.SIGKILL)
        self.ring.close()
        self.page.close()


def flight_of(state: StateDirectory) -> tuple[list[FlightRecord], Damage]:
    """What is in a flight recorder."""
    damage = Damage()
    return list(read_flight(state.guard / FLIGHT, damage)), damage


@contextlib.contextmanager
def monitored(rig: MonitorRig) -> Iterator[MonitorRig]:
    """Starts it, and ends it whatever happens."""
    try:
        rig.start()
        yield rig
    finally:
        rig.close()
