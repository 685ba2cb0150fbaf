"""The parts of a rig, as small protocols: whatever stands behind them, the plan speaks to these.

Times are seconds of the rig's own clock (`Rig.now`), which a simulated rig lets run as fast as it can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sim.network import Impairment

PartName = Literal[
    "power",
    "recovery_button",
    "console",
    "shell",
    "usb",
    "network",
    "byte_counter",
    "marker",
    "shutter",
    "vendor_script",
    "injector",
    "processes",
    "events",
    "queue",
    "heat",
    "motion",
    "updates",
    "models",
    "pictures",
    "memory",
    "kernel_log",
]
"""Every part that the plan may ask for. A rig has it, or its file says why not."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command left.

    Attributes:
        code: its exit code.
        out, err: what it wrote.
    """

    code: int
    out: str
    err: str = ""


class Power(Protocol):
    """Mains or battery of the device, switched from outside."""

    def on(self) -> None:
        """Power comes."""
        ...

    def off(self) -> None:
        """Power goes, without a word before."""
        ...


class Button(Protocol):
    """A button that a relay holds down."""

    def press(self) -> None:
        """Hold it down."""
        ...

    def release(self) -> None:
        """Let it go."""
        ...


class Console(Protocol):
    """The serial console."""

    def read(self) -> str:
        """What came since the last time; empty where nothing came."""
        ...


class Shell(Protocol):
    """Commands on the device."""

    def run(self, command: Sequence[str], within_s: float = 60.0) -> Answer:
        """Run one to its end.

        Raises:
            DeviceError: the device cannot be reached, or it did not end in time.
        """
        ...


class UsbPorts(Protocol):
    """USB ports whose supply can be switched; a port has the name of what is plugged in."""

    def off(self, name: str) -> None:
        """Unplug it."""
        ...

    def on(self, name: str) -> None:
        """Plug it in."""
        ...


class NetworkLink(Protocol):
    """The network between device and server."""

    def become(self, impairment: Impairment) -> None:
        """From now on it is like this."""
        ...

    def cut(self) -> None:
        """Nothing gets through."""
        ...

    def heal(self) -> None:
        """Everything gets through."""
        ...


class ByteCounter(Protocol):
    """Counts what the device sends."""

    def sent_bytes(self) -> int:
        """So far; never falls while the rig is in use."""
        ...


class Marker(Protocol):
    """Something before the camera that the device makes an event of, shown and hidden by the rig."""

    def show(self, *, lit: bool) -> None:
        """Show or hide it; it is so when this returns."""
        ...


class Shutter(Protocol):
    """Something that covers the lens, or takes the light away."""

    def cover(self, *, shut: bool) -> None:
        """Cover it or not; it is so when this returns."""
        ...


class VendorScript(Protocol):
    """Writes an image onto a device that is in recovery mode."""

    def in_recovery(self) -> bool:
        """Whether a device in recovery mode is there to be written to."""
        ...

    def flash(self) -> None:
        """Write the image that the rig's file names.

        Raises:
            RigError: it failed; the text ends with what the script said.
        """
        ...
