"""Five faults of a body that moves: a camera dies, heat, an empty battery, an old map, a lost link.

Each leads to the state that the documentation says, each is recovered from, and the fleet server receipts an event
of every change, those of the time without a link included.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runtime.clock import SystemClock
from edge_runtime.outbox import OutboxClient
from edge_runtime.state import StateDirectory
from sim.cable import Cable
from sim.road import Server, ask
from sim.road import running as running_server
from tests.rigs.boards import computer
from tests.rigs.cameras import MjpegCamera, wait_until
from tests.rigs.carts import Drive, acknowledge, arm, commission, write_cart
from tests.rigs.devices import RunningDevice, running_device

COOL, HOT = 60_000, 92_000
ZONE = "/sys/class/thermal/thermal_zone1/temp"


class Adapters:
    """What a robot's own software reports, twenty times a second."""

    def __init__(self, path: Path) -> None:
        self.charge, self.map_is_fresh = 0.8, True
        self._path = str(path)
        self._over = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator["Adapters"]:
        thread = threading.Thread(target=self._report, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(5)

    def _report(self) -> None:
        volts = 24.0
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            while not self._over.wait(0.05):
                volts = 24.0 if volts > 24.0 else 24.01
                told: dict[str, Any] = {"battery": {"name": "main", "charge": self.charge, "volts": volts}}
                if self.map_is_fresh:
                    told["map"] = {"built_ns": time.monotonic_ns()}
                with contextlib.suppress(OSError):
                    end.sendto(json.dumps(told).encode(), self._path)


def cart_on_the_road(folder: Path, package: Path, camera: MjpegCamera, cable: Cable) -> Path:
    """The example body that also relies on a battery, a map and the link, with the sensors of a made-up machine."""
    computer(folder / "machine")
    source = {"kind": "http", "url": camera.url, "stall_after": 1.0, "backoff_first": 0.1, "backoff_max": 0.5}
    source |= {"max_age": 1.0}
    config = write_cart(
        folder,
        package,
        source,
        temperature="expected",
        root="machine",
        batteries={"main": {}},
        map={"max_age": 1.0},
    )
    data = yaml.safe_load(config.read_text(encoding="utf-8"))
    data["delivery"]["uplink"] = {"broker": {"host": "localhost", "port": cable.port}, "reconnect_cap": 1}
    config.write_text(yaml.safe_dump(data), encoding="utf-8")
    body = yaml.safe_load((folder / "cart.yaml").read_text(encoding="utf-8"))
    body["conditions"] = {"pose_stale": {"ignored": "it follows a line"}}
    body["freshness_ms"] = {"camera": 1000, "battery": 5000}
    body["repeats"] = {"trips": 16, "trips_window_ms": 1000, "latches": 16, "latches_window_ms": 1000}
    (folder / "cart.yaml").write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    return config


def in_state(state: str, *causes: str) -> Callable[[dict[str, Any]], bool]:
    def holds(status: dict[str, Any]) -> bool:
        return status["state"] == state and set(causes) <= set(status["tripped"])

    return holds


def recover(device: RunningDevice, folder: Path) -> None:
    """Out of a latch: signed, and armed anew."""
    status = device.wait(lambda found: found["latch"] is not None)
    acknowledge(device, folder, status["latch"]["id"])
    arm(device)


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_each_fault_has_its_state_its_way_back_and_its_event(tmp_path: Path, yolox_package: Path) -> None:
    server, state = Server(tmp_path), StateDirectory(tmp_path / "state")
    camera = MjpegCamera().start()
    camera.interval_s, camera.size = 0.1, (320, 240)
    with contextlib.ExitStack() as stack:
        stack.callback(camera.kill)
        stack.enter_context(running_server(server))
        token = server.invite("cart-7")
        ask("edge-runtime", "enrol", "--server", server.url, "--token", token, "--state", str(state.path))
        cable = stack.enter_context(Cable(server.broker))
        config = cart_on_the_road(tmp_path, yolox_package, camera, cable)
        board = computer(tmp_path / "machine")
        board.put(ZONE, COOL)
        adapters = stack.enter_context(Adapters(state.adapters_socket).running())
        device = stack.enter_context(running_device(config))
        drive = stack.enter_context(Drive(tmp_path).running())
        commission(device, tmp_path)
        assert wait_until(lambda: drive.passed > 0)

        camera.kill()
        device.wait(in_state("STOPPED"))
        camera.start()
        device.wait(in_state("NOMINAL"))

        board.put(ZONE, HOT)
        device.wait(in_state("DEGRADED", "soc_hot"))
        board.put(ZONE, COOL)
        device.wait(in_state("NOMINAL"))

        adapters.charge = 0.02
        device.wait(in_state("SAFE", "battery_critical"))
        adapters.charge = 0.8
        recover(device, tmp_path)

        adapters.map_is_fresh = False
        device.wait(in_state("DEGRADED", "map_stale"))
        device.wait(in_state("SAFE", "map_stale"))
        adapters.map_is_fresh = True
        recover(device, tmp_path)

        cable.cut()
        device.wait(in_state("DEGRADED", "link_lost"))
        cable.heal()
        device.wait(in_state("NOMINAL"))

        with contextlib.closing(OutboxClient(state.outbox_socket, SystemClock(), 5.0)) as outbox:
            assert wait_until(lambda: outbox.status().ledger.queued == 0, 60)
            ledger = outbox.status().ledger
        assert ledger.balances
        assert ledger.delivered == ledger.accepted
        events = server.fleet("events", "list", "--rule", "@guard", "--limit", "1000")
    reasons = [event["event"]["reason"] for event in events]
    for change, cause in (
        ("NOMINAL -> STOPPED", ""),
        ("STOPPED -> NOMINAL", ""),
        ("NOMINAL -> DEGRADED", "(soc_hot)"),
        ("NOMINAL -> SAFE", "(battery_critical)"),
        ("NOMINAL -> DEGRADED", "(map_stale)"),
        ("DEGRADED -> SAFE", "(map_stale)"),
        ("NOMINAL -> DEGRADED", "(link_lost)"),
        ("DEGRADED -> NOMINAL", ""),
    ):
        assert any(change in reason and cause in reason for reason in reasons), (change, cause, reasons)
