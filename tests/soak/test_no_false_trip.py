"""The whole device with a body that moves, on a real clip, while other work takes both cores: nothing may trip.

`make soak`; EDGE_SOAK_MINUTES changes how many. The camera, the model and the motion gate are busy all the time.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.guard.selftest.trials import busy
from sim.soak import SoakRun, over
from sim.soak.subjects import of_device
from tests.rigs.carts import Drive, commission, write_cart
from tests.rigs.devices import running_device

pytestmark = pytest.mark.soak


def test_nothing_trips_while_both_cores_are_busy(
    tmp_path: Path, media: Path, yolox_package: Path, soak: Callable[[str], SoakRun], minutes: float
) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi"), "loop": True, "pacing": "camera"}
    config = write_cart(tmp_path, yolox_package, source)
    drive, run = Drive(tmp_path), soak("cart")
    states: dict[str, int] = {}
    tripped: dict[str, int] = {}
    with running_device(config) as device, drive.running():
        commission(device, tmp_path)

        def processes() -> dict[str, int]:
            return of_device(device.process.pid, device.status())

        with busy(2), run.watching(processes, {"guard": tmp_path / "device.log"}):
            drive.begin()
            until, looks = time.monotonic() + minutes * 60, 0
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
    lines = run.finish(
        minutes=minutes,
        schedule="fifo" if status["facts"].get("sched_fifo") else "other",
        looks=looks,
        states=states,
        tripped=tripped,
        guard_late_ms=round(status["late_worst_us"] / 1000, 1),
        passed=f"{drive.passed} of {drive.proposed}",
        longest_gap_ms=round(drive.longest_gap_s * 1000),
        cameras=frames["cameras"],
    )
    assert status["latch"] is None
    assert all(worker["starts"] == 1 for worker in status["workers"])
    assert set(states) <= {"NOMINAL", "DEGRADED"}, changes
    assert drive.passed > 0.9 * drive.proposed
    assert not over(lines)
