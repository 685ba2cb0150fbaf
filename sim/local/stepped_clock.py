"""A device's clocks in the hand of a rig: steps, a wrong time at boot, a reboot, while its real processes run.

`stepped_clock.c` is compiled with the system's compiler and loaded before the C library into the processes that get
`variables`; they run the product's own entry points, and everything in them, TLS included, sees the same time.
"""

import shutil
import struct
import subprocess
import time
import uuid
from pathlib import Path

from edge_runtime.clock import NS_PER_S, SystemClock, WallLabel
from sim.process import RoadError

_SOURCE = Path(__file__).with_suffix(".c")
_FIRST_BOOT = "00000000-0000-4000-8000-000000000001"


def compiler() -> str | None:
    """The system's C compiler; None where there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def _compiled(target: Path) -> Path:
    """The library.

    Raises:
        RoadError: it cannot be made.
    """
    found = compiler()
    if found is None:
        raise RoadError("a clock that steps needs a C compiler: apt-get install gcc")
    options = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    command = [found, *options, "-o", str(target), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - our own source
    if done.returncode:
        raise RoadError(f"{_SOURCE.name} does not compile: {done.stderr.decode(errors='replace')[-400:]}")
    return target


class SteppedClock:
    """Clocks of one device; they begin as the machine's, and synchronised.

    Args:
        folder: for what steers them; made.

    Attributes:
        variables: for the environment of the device's processes.

    Raises:
        RoadError: there is no compiler, or it refuses.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._steering, self._boot_file = folder / "steering", folder / "boot_id"
        self._wall_ns = self._boot_ns = 0
        self._synced, self._boot_id = True, ""
        self._begin_boot(_FIRST_BOOT)
        self.variables = {
            "LD_PRELOAD": str(_compiled(folder / "stepped_clock.so")),
            "STEPPED_CLOCK": str(self._steering),
            "STEPPED_BOOT_ID": str(self._boot_file),
        }

    @property
    def ahead_s(self) -> float:
        """So many seconds the wall clock is ahead of the true time."""
        return self._wall_ns / NS_PER_S

    def step(self, ahead_s: float, *, synced: bool = True, boot_follows: bool = False) -> None:
        """Set the wall clock so many seconds ahead of the true time.

        Args:
            ahead_s: of the true time.
            synced: what the kernel says of it.
            boot_follows: the clock that nobody sets goes with it, as in software that measures by the wall clock.
        """
        self._wall_ns, self._synced = round(ahead_s * NS_PER_S), synced
        if boot_follows:
            self._boot_ns = self._wall_ns
        self._write()

    def reboot(self, *, up_s: float = 10.0) -> None:
        """A new boot that began so long ago; only while no process of the device runs."""
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._boot_ns = round(up_s * NS_PER_S) - now_ns
        self._begin_boot(str(uuid.uuid4()))

    def wall(self) -> WallLabel:
        """The wall clock as the device sees it."""
        true_ns = SystemClock().wall().unix_ns
        return WallLabel(true_ns + self._wall_ns, self._synced, self._boot_id)

    def _begin_boot(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._boot_file.write_text(boot_id + "\n", encoding="ascii")
        self._write()

    def _write(self) -> None:
        data = struct.pack("=qqq", self._wall_ns, self._boot_ns, self._synced)
        with self._steering.open("r+b" if self._steering.exists() else "wb") as file:
            file.write(data)
