"""Opens rig `local`."""

import contextlib
from pathlib import Path

from hil.local import parts
from hil.local.bench import LocalBench
from hil.parts import PartName
from hil.rig import Rig
from hil.rig_file import RigFile
from sim.scenario.records import DeviceSpec

SPEC = DeviceSpec(body="cart", local_fps=2.0)


def open_local(file: RigFile, folder: Path, stack: contextlib.ExitStack) -> Rig:
    """A server, a network, a camera, and a device that is on.

    Raises:
        RigError: a part did not start.
    """
    bench = parts.of_rig(lambda: LocalBench(folder, SPEC, stack))
    bench.switch_on()
    bench.commission(file.times.boot)
    found: dict[PartName, object] = {
        "power": parts.LocalPower(bench),
        "network": parts.LocalNetwork(bench),
        "byte_counter": parts.LocalBytes(bench),
        "marker": parts.LocalMarker(bench),
        "shutter": parts.LocalShutter(bench),
        "injector": parts.LocalInjector(bench),
        "processes": parts.LocalProcesses(bench),
        "events": parts.LocalEvents(bench),
        "queue": parts.LocalQueue(bench),
        "motion": parts.LocalMotion(bench),
        "models": parts.LocalModels(bench),
        "memory": parts.LocalMemory(bench),
    }
    return Rig(file, parts.LocalDevice(bench), found, bench)
