"""Opens a bench: binds its drivers and switches the board on."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hil.bench.binding import bind
from hil.parts import PartName, Power
from hil.problems import BadRig
from hil.rig import Pace, Rig
from hil.rig_file import RigFile

_LOOK_S = 0.2


class BenchClock:
    """The clock of this machine."""

    @property
    def look_s(self) -> float:
        """Seldom: a look is a command over ssh."""
        return _LOOK_S

    def now(self) -> float:
        """CLOCK_MONOTONIC."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    @contextlib.contextmanager
    def long_run(self, pace: Pace) -> Iterator[None]:  # noqa: ARG002 - a board is as it is
        """Hours take hours here."""
        yield


def open_bench(file: RigFile, folder: Path, stack: contextlib.ExitStack) -> Rig:  # noqa: ARG001 - it leaves no files
    """The board is on when this returns.

    Raises:
        BadRig: a driver does not bind, this machine lacks something, or the file has no shell to the device.
    """
    clock = BenchClock()
    device, found = bind(file, clock.now)
    wrong = [text for one in found for text in ((one.problem,) if one.problem else one.lacks)]
    if device is None:
        wrong.append("without a shell to the device there is nothing to ask")
    if wrong:
        raise BadRig(f"rig {file.name}: {'; '.join(dict.fromkeys(wrong))}")
    parts: dict[PartName, Any] = {one.name: one.part for one in found}
    console = parts.get("console")
    if console is not None and hasattr(console, "close"):
        stack.callback(console.close)
    if "power" in parts:
        cast("Power", parts["power"]).on()
    assert device is not None
    return Rig(file, device, parts, clock)
