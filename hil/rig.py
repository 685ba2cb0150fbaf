"""A rig that is open: a device under test, the parts around it, and the clock by which the plan measures."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from hil.device_parts import Device
from hil.parts import PartName
from hil.problems import DeviceError
from hil.rig_file import RigFile

Pace = Literal["minutes", "heat", "hours"]
LATCHED = ("SAFE", "LOCKOUT")
"""States of a guard that only a person's act ends."""


class RigClock(Protocol):
    """Time as the rig has it."""

    @property
    def look_s(self) -> float:
        """Between two looks of whoever waits for something."""
        ...

    def now(self) -> float:
        """Seconds since some moment; goes on while the device is off."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def long_run(self, pace: Pace) -> AbstractContextManager[None]:
        """Much time may pass in it. A simulated rig has another device there, which stands still and sees nothing.

        Args:
            pace: how much, or what it is about.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rig:
    """One rig.

    Attributes:
        file: that describes it.
        device: under test.
        parts: those that it has, by name.
        clock: its own.
    """

    file: RigFile
    device: Device
    parts: Mapping[PartName, object]
    clock: RigClock

    def until(self, condition: Callable[[], bool], within_s: float) -> float | None:
        """Wait for something; seconds until it was so, None where it was not in time. No answer is not yet so."""
        began = self.clock.now()
        while not _holds(condition):
            if self.clock.now() - began >= within_s:
                return None
            self.clock.wait(self.clock.look_s)
        return self.clock.now() - began

    def ready(self, within_s: float) -> float | None:
        """Wait until the device works; seconds until it did. What is latched does not get well by waiting."""
        found = self.until(self._settled, within_s)
        return found if self.device.state() == "NOMINAL" else None

    def _settled(self) -> bool:
        """Whether waiting is over; a body that stands by is armed, for nobody else does it here."""
        state = self.device.state()
        if state == "STANDBY":
            self.device.arm()
        return state == "NOMINAL" or state in LATCHED


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except DeviceError:
        return False
