"""What the device of rig `local` has around it: adapters, another program that takes its time, a small disk."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.monitor.adapters import AdapterSocket
from edge_runtime.state import StateDirectory
from sim.local.around import SPREAD_M, Around
from sim.local.neighbour import Neighbour
from sim.local.small_disk import fill_up, seen_from_outside, with_small_disk
from sim.scenario.records import DeviceSpec

WITHIN_S = 60.0
BUSY = "while True:\n    pass"


def until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_an_adapter_tells_pose_and_map_until_it_falls_silent(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    adapters = AdapterSocket(state.adapters_socket, frozenset(), SystemClock())
    around = Around(tmp_path / "machine", DeviceSpec(body="cart", pose=True), state, SystemClock(), None)

    def hears_anew() -> bool:
        since_ns = time.monotonic_ns()

        def newer() -> bool:
            adapters.listen()
            pose = adapters.heard.pose
            return pose is not None and pose.captured_ns > since_ns

        return until(newer)

    around.start()
    try:
        assert hears_anew()
        assert adapters.heard.pose is not None
        assert adapters.heard.pose.spread_m == SPREAD_M
        around.maps = False
        assert hears_anew()
        built_ns = adapters.heard.map_built_ns
        assert hears_anew()
        assert adapters.heard.map_built_ns == built_ns, "an old map is told again, and no new one"
        assert not adapters.heard.refused
    finally:
        around.close()
        adapters.close()


def test_a_neighbour_takes_the_time_of_a_process_and_gives_it_back() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
        seen, process = Neighbour(lambda: busy.pid), psutil.Process(busy.pid)
        try:
            seen.come(20)
            assert until(lambda: process.status() == psutil.STATUS_STOPPED)
            seen.leave()
            assert until(lambda: process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_SLEEPING))
            assert process.status() != psutil.STATUS_STOPPED
        finally:
            busy.kill()


def test_a_neighbour_whose_process_ended_leaves_in_peace() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as over:
        over.wait()
    seen = Neighbour(lambda: over.pid)
    seen.come(20)
    seen.leave()


def test_a_small_disk_is_full_for_one_program_alone(tmp_path: Path) -> None:
    place = tmp_path / "outbox"
    place.mkdir()
    probe = subprocess.run(with_small_disk(place, 1, ["true"]), capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"needs root, or namespaces for users: {probe.stderr.strip()}")
    waits = [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        with_small_disk(place, 1, waits), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "here\n"
        inside = seen_from_outside(program.pid, place)
        filler = fill_up(inside)
        assert 0.5 * 2**20 < filler.stat().st_size <= 2**20
        with pytest.raises(OSError, match="No space left"), (inside / "more").open("wb", buffering=0) as more:
            more.write(bytes(4096))
        assert not list(place.iterdir()), "nobody else sees it"
        filler.unlink()
        (inside / "more").write_bytes(bytes(4096))
        program.kill()
