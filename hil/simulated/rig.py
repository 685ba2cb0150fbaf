"""Opens rig `sim`."""

import contextlib
import os
import tempfile
from pathlib import Path

from hil.parts import PartName
from hil.rig import Rig
from hil.rig_file import RigFile
from hil.simulated import parts
from hil.simulated.bench import SimulatedBench

RAM_DISK = Path("/dev/shm")  # noqa: S108 - a folder of one's own is made in it


def _disk(folder: Path, stack: contextlib.ExitStack) -> Path:
    """Memory where this machine lends it: the device flushes at each commit, and nothing has to outlive the run."""
    if not os.access(RAM_DISK, os.W_OK):
        return folder
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hil-sim-", dir=RAM_DISK)))


def open_simulated(file: RigFile, folder: Path, stack: contextlib.ExitStack) -> Rig:
    """A simulated device that is on, and what is around it."""
    bench = SimulatedBench(_disk(folder, stack))
    stack.callback(bench.close)
    bench.switch_on()
    found: dict[PartName, object] = {
        "power": parts.SimulatedPower(bench),
        "network": parts.SimulatedNetwork(bench),
        "marker": parts.SimulatedMarker(bench),
        "shutter": parts.SimulatedShutter(bench),
        "injector": parts.SimulatedInjector(bench),
        "processes": parts.SimulatedProcesses(bench),
        "events": parts.SimulatedEvents(bench),
        "queue": parts.SimulatedQueue(bench),
        "heat": parts.SimulatedHeat(bench),
        "motion": parts.SimulatedMotion(bench),
        "updates": parts.SimulatedRollout(bench),
    }
    return Rig(file, parts.SimulatedDevice(bench), found, bench)
