"""What is switched on and off: power, buttons, a marker, a shutter, USB ports."""

import time
from collections.abc import Sequence
from typing import Protocol

from hil.bench.commands import done_here, lacking_program
from hil.bench.records import SwitchCommands, Uhubctl
from hil.problems import RigError

_UHUBCTL_S = 30.0


class Switch(Protocol):
    """Something with two positions."""

    def turn(self, *, on: bool) -> None:
        """Turn it, and wait until it is so.

        Raises:
            RigError: it does not obey.
        """
        ...

    def lacks(self) -> list[str]:
        """What this machine lacks for it."""
        ...

    @property
    def told(self) -> str:
        """What it is."""
        ...


class CommandSwitch:
    """Switched by commands of this machine.

    Args:
        commands: of the rig's file.
    """

    def __init__(self, commands: SwitchCommands) -> None:
        self._commands = commands

    def turn(self, *, on: bool) -> None:
        """Run the command of the position."""
        done_here(self._commands.on if on else self._commands.off, self._commands.within)
        time.sleep(self._commands.settles)

    def lacks(self) -> list[str]:
        """Programs that are not here."""
        words = dict.fromkeys((self._commands.on[0], self._commands.off[0]))
        return [text for word in words for text in lacking_program(word)]

    @property
    def told(self) -> str:
        """Its command."""
        return " ".join(self._commands.on)


class SwitchedPower:
    """`Power` by a switch."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    def on(self) -> None:
        """Power comes."""
        self._switch.turn(on=True)

    def off(self) -> None:
        """Power goes."""
        self._switch.turn(on=False)


class SwitchedButton:
    """`Button` by a switch."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    def press(self) -> None:
        """Hold it down."""
        self._switch.turn(on=True)

    def release(self) -> None:
        """Let it go."""
        self._switch.turn(on=False)


class SwitchedMarker:
    """`Marker` by a switch."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    def show(self, *, lit: bool) -> None:
        """Show or hide it."""
        self._switch.turn(on=lit)


class SwitchedShutter:
    """`Shutter` by a switch that is on where the lens is covered."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    def cover(self, *, shut: bool) -> None:
        """Cover the lens or not."""
        self._switch.turn(on=shut)


class UhubctlPorts:
    """`UsbPorts` by uhubctl.

    Args:
        hub: of the rig's file.
    """

    def __init__(self, hub: Uhubctl) -> None:
        self._hub = hub

    def off(self, name: str) -> None:
        """Unplug it."""
        self._switch(name, "off")

    def on(self, name: str) -> None:
        """Plug it in."""
        self._switch(name, "on")

    def lacks(self) -> list[str]:
        """The program, where it is not here."""
        return lacking_program("uhubctl")

    @property
    def told(self) -> str:
        """Hub and ports."""
        return f"hub {self._hub.hub}: {', '.join(f'{n} {p}' for n, p in self._hub.ports.items())}"

    def _switch(self, name: str, action: str) -> None:
        port = self._hub.ports.get(name)
        if port is None:
            raise RigError(f"the rig's file names no port for {name}; it names {', '.join(self._hub.ports)}")
        command: Sequence[str] = ("uhubctl", "-l", self._hub.hub, "-p", str(port), "-a", action, "-r", "100")
        done_here(command, _UHUBCTL_S)
