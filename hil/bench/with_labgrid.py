"""Parts that labgrid reaches, behind our own protocols. labgrid (LGPL-2.1) is optional, and imported only here.

A resource and a driver are made and bound when the rig's file is bound, which touches no hardware; the driver is
activated when it is first used, which does.
"""

import importlib
import time
import warnings
from copy import deepcopy
from typing import Any

from hil.bench.records import LabgridPart
from hil.problems import BadRig, RigError

_READ_S = 0.05
_HOW = "install it beside this project: pip install labgrid"


class LabgridDriver:
    """One driver of labgrid on one resource.

    Args:
        part: of the rig's file.
        name: of the part.
        needs: methods of one of these names, all of one tuple, or the driver is of another kind.

    Raises:
        BadRig: labgrid is not installed, knows no such class, or refuses these values.
    """

    def __init__(self, part: LabgridPart, name: str, *needs: tuple[str, ...]) -> None:
        self._part, self._name = part, name
        target_factory, target = _labgrid(name)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "unsupported attribute")  # it drops what it does not know
                target_factory.make_resource(target, part.resource, name, deepcopy(part.values))
                self.driver: Any = target_factory.make_driver(
                    target, part.through, name, deepcopy(part.options)
                )
        except Exception as error:  # noqa: BLE001 - labgrid's classes raise what they like about values
            text = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise BadRig(f"{name}: labgrid refuses {part.resource} with {part.through}: {text[0]}") from None
        self._target, self._active = target, False
        if not any(all(hasattr(self.driver, word) for word in words) for words in needs):
            raise BadRig(f"{name}: labgrid's {part.through} is no driver for this: it has no {needs[0][0]}")

    def used(self) -> Any:
        """The driver, active.

        Raises:
            RigError: the hardware is not there.
        """
        if not self._active:
            self.call(self._target.activate, self.driver)
            self._active = True
        return self.driver

    def call(self, do: Any, *values: Any) -> Any:
        """What a method gives.

        Raises:
            RigError: it failed.
        """
        try:
            return do(*values)
        except Exception as error:  # noqa: BLE001 - back ends raise what their libraries do
            raise RigError(
                f"{self._name}: {self._part.through}: {str(error) or type(error).__name__}"
            ) from None

    def lacks(self) -> list[str]:
        """Nothing: what a back end needs shows when it is activated."""
        return []

    @property
    def told(self) -> str:
        """Classes and values."""
        values = ", ".join(f"{name}={value}" for name, value in self._part.values.items())
        return f"labgrid {self._part.through} on {self._part.resource}({values})"


class LabgridSwitch(LabgridDriver):
    """A `Switch`: labgrid's PowerProtocol, or its DigitalOutputProtocol."""

    def __init__(self, part: LabgridPart, name: str) -> None:
        super().__init__(part, name, ("on", "off"), ("set",))

    def turn(self, *, on: bool) -> None:
        """Turn it."""
        driver = self.used()
        if hasattr(driver, "set"):
            self.call(driver.set, on)
        else:
            self.call(driver.on if on else driver.off)
        time.sleep(self._part.settles)


class LabgridConsole(LabgridDriver):
    """`Console` over labgrid's ConsoleProtocol."""

    def __init__(self, part: LabgridPart, name: str) -> None:
        super().__init__(part, name, ("read", "write"))

    def read(self) -> str:
        """What came since the last time."""
        driver = self.used()
        try:
            data: bytes = driver.read(1, timeout=_READ_S)  # one or more: all that waits
        except Exception as error:  # noqa: BLE001 - a time-out is one of pexpect's classes
            if "TIMEOUT" in type(error).__name__.upper():
                return ""
            raise RigError(f"{self._name}: {str(error) or type(error).__name__}") from None
        return data.decode("utf-8", "replace")


def _labgrid(name: str) -> tuple[Any, Any]:
    try:
        for module in ("labgrid.resource", "labgrid.driver"):
            importlib.import_module(module)  # which makes their classes known to the factory
        factory = importlib.import_module("labgrid.factory")
        targets = importlib.import_module("labgrid")
    except ImportError as error:
        raise BadRig(f"{name}: labgrid is not installed ({error.name}); {_HOW}") from None
    return factory.target_factory, targets.Target(f"bench-{name}")
