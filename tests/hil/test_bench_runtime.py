"""What a bench asks of the runtime on its board, asked of a real runtime on this machine."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from hil.bench.records import RuntimeCommands
from hil.bench.runtime import BenchDevice, BenchRuntime
from hil.bench.runtime_parts import BenchMemory, BenchModels, BenchProcesses, BenchQueue
from hil.local.rig import open_local
from hil.parts import Answer
from hil.problems import DeviceError
from hil.rig_file import read_rig, rig_path
from sim.local.device_file import MODEL

PROGRAM = (sys.executable, "-m", "edge_runtime.cli.main")


class Here:
    """`Shell`, on this machine."""

    def run(self, command: Sequence[str], within_s: float = 60.0) -> Answer:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * within_s, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)


def runtime(state: Path) -> BenchRuntime:
    commands = RuntimeCommands(program=PROGRAM, state=str(state), package=str(MODEL), privileged=())
    return BenchRuntime(Here(), commands)


@pytest.mark.trial
def test_a_device_that_runs_is_read_as_the_rig_itself_sees_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        rig = open_local(read_rig(rig_path("local")), tmp_path / "rig", stack)
        asked = runtime(tmp_path / "rig" / "state")
        device = BenchDevice(asked)
        assert rig.ready(300) is not None
        assert rig.until(lambda: device.state() == "NOMINAL", 120) is not None
        assert rig.until(lambda: (device.frames() or 0) > 0, 120) is not None
        assert device.faults().latch is None
        assert device.facts()["runtime"]
        workers = {row["name"] for row in asked.workers()}
        assert workers >= {"outbox", "perception", "uplink"}
        used = BenchMemory(asked).use()
        assert used.resident_bytes > 10 << 20
        assert used.descriptors > 10
        assert BenchQueue(asked).fates().balances
        processes = BenchProcesses(asked)
        before = processes.restarts()
        processes.kill("outbox")
        assert rig.until(lambda: processes.restarts() > before, 120) is not None
    assert device.state() is None
    with pytest.raises(DeviceError, match="no guard answers"):
        asked.workers()


@pytest.mark.trial
def test_a_package_is_checked_where_it_lies(tmp_path: Path) -> None:
    holds, said = BenchModels(runtime(tmp_path)).golden()
    assert holds, said


def test_what_is_no_json_or_ends_badly_is_told_in_a_sentence(tmp_path: Path) -> None:
    class Broken:
        def run(self, command: Sequence[str], within_s: float = 60.0) -> Answer:
            return Answer(0, "Segmentation fault") if "health" in command else Answer(9, "", "no such option")

    broken = BenchRuntime(Broken(), RuntimeCommands(program=("edge-runtime",), state="/state"))
    with pytest.raises(DeviceError, match="health printed no JSON: 'Segmentation fault'"):
        broken.ask("health", "--json")
    with pytest.raises(DeviceError, match="ended with 9: no such option"):
        broken.status()
    assert BenchDevice(broken).state() is None
