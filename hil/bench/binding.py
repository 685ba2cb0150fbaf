"""Binds a bench's file: every driver is made, and asked what this machine lacks for it. No hardware is touched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from hil.bench import switches
from hil.bench.commands import SshShell
from hil.bench.gateway import InterfaceBytes, NetemLink
from hil.bench.records import LabgridPart, SerialDevice
from hil.bench.runtime import BenchDevice, BenchEvents, BenchRuntime
from hil.bench.runtime_parts import (
    BenchInjector,
    BenchMemory,
    BenchModels,
    BenchMotion,
    BenchProcesses,
    BenchQueue,
    BenchUpdates,
)
from hil.bench.serial_console import SerialConsole
from hil.bench.vendor import ScriptFlasher
from hil.bench.with_labgrid import LabgridConsole, LabgridSwitch
from hil.parts import PartName
from hil.problems import BadRig
from hil.rig_file import PARTS, RigFile


class Told(Protocol):
    """What a driver says of itself."""

    def lacks(self) -> list[str]:
        """What this machine lacks for it, a sentence each."""
        ...

    @property
    def told(self) -> str:
        """What it is, in a line."""
        ...


@dataclass(frozen=True, slots=True)
class Bound:
    """One part of a bench.

    Attributes:
        name: of the part.
        part: as the plan uses it; None where its driver does not bind.
        told: what it is.
        lacks: what this machine lacks for it.
        problem: why it does not bind; empty where it does.
    """

    name: PartName
    part: object | None
    told: str
    lacks: tuple[str, ...] = ()
    problem: str = ""


_SWITCHED: Mapping[str, Callable[[switches.Switch], object]] = {
    "power": switches.SwitchedPower,
    "recovery_button": switches.SwitchedButton,
    "marker": switches.SwitchedMarker,
    "shutter": switches.SwitchedShutter,
}


def bind(file: RigFile, now: Callable[[], float]) -> tuple[BenchDevice | None, list[Bound]]:
    """Make every driver of a bench.

    Args:
        file: of the bench.
        now: of the rig's clock.

    Returns:
        The device, None where the file has no shell to it, and every part that the file does not declare absent.
    """
    found = [_bound(name, getattr(file.driver, name)) for name in file.driver.given() if name != "updates"]
    shell = next((one.part for one in found if one.name == "shell"), None)
    if shell is None or file.runtime is None:
        return None, found
    runtime = BenchRuntime(cast("SshShell", shell), file.runtime)
    device = BenchDevice(runtime)
    if file.driver.updates is not None:
        updates = BenchUpdates(runtime, file.driver.updates)
        found.append(Bound("updates", updates, updates.told, tuple(updates.lacks())))
    models = BenchModels(runtime)
    by_shell: dict[PartName, object] = {
        "injector": BenchInjector(runtime, now),
        "processes": BenchProcesses(runtime),
        "events": BenchEvents(runtime),
        "queue": BenchQueue(runtime),
        "heat": device,
        "motion": BenchMotion(runtime),
        "models": models,
        "pictures": models,
        "memory": BenchMemory(runtime),
        "kernel_log": device,
    }
    found += [
        Bound(name, part, f"{file.runtime.program[0]} over the shell")
        for name, part in by_shell.items()
        if name not in file.absent
    ]
    return device, sorted(found, key=lambda one: PARTS.index(one.name))


def _bound(name: PartName, given: Any) -> Bound:
    try:
        told, part = _made(name, given)
    except BadRig as error:
        return Bound(name, None, given.driver, problem=str(error))
    return Bound(name, part, told.told, tuple(told.lacks()))


def _made(name: PartName, given: Any) -> tuple[Told, object]:
    """The driver, and the part that it makes."""
    if name in _SWITCHED:
        switch = (
            LabgridSwitch(given, name) if isinstance(given, LabgridPart) else switches.CommandSwitch(given)
        )
        return switch, _SWITCHED[name](switch)
    if name == "console":
        console = SerialConsole(given) if isinstance(given, SerialDevice) else LabgridConsole(given, name)
        return console, console
    makers: dict[str, Callable[[Any], Any]] = {
        "shell": SshShell,
        "usb": switches.UhubctlPorts,
        "network": NetemLink,
        "byte_counter": InterfaceBytes,
        "vendor_script": ScriptFlasher,
    }
    driver = makers[name](given)
    return driver, driver
