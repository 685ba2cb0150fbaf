"""What the acts of one installed module share, and the logger."""

import os
import threading
from typing import Any

from tests.rigs.tensorrt_double.device import Device
from tests.rigs.tensorrt_double.strict import Classes, wrap


class Stage:
    """What the acts of one installed module share.

    Attributes:
        classes: of the release.
        version: as `tensorrt.__version__`.
        device: that is played.
    """

    def __init__(self, classes: Classes, version: str, device: Device) -> None:
        self.classes = classes
        self.version = version
        self.device = device

    def make(self, name: str, act: Any) -> Any:
        """An object of a class."""
        return wrap(self.classes[name], act)

    def member(self, enum: str, name: str) -> Any:
        """A value of an enum."""
        return self.classes[enum].__members__[name]

    def log(self, logger: Any, severity: str, text: str) -> None:
        """Tells a logger."""
        logger.log(self.member("ILogger.Severity", severity), text)


class LoggerAct:
    """`tensorrt.Logger`: prints what is severe enough."""

    settable = ("min_severity",)
    stage: Stage

    def __init__(self, owner: Any, min_severity: Any = None) -> None:
        self.min_severity = min_severity or self.stage.member("ILogger.Severity", "WARNING")

    def log(self, severity: Any, msg: str) -> None:
        if int(severity) <= int(self.min_severity):
            print(f"[TRT] [{severity.name}] {msg}")


class Owned:
    """Belongs to the thread and the process that made it."""

    def __init__(self, stage: Stage, what: str) -> None:
        self.stage = stage
        self._what = what
        self._thread = threading.get_ident()
        self._pid = os.getpid()

    def guard(self, member: str) -> None:
        """Called before every member."""
        where = threading.current_thread().name
        if os.getpid() != self._pid:
            raise self.stage.device.misuse(f"{self._what}.{member} after fork")
        if threading.get_ident() != self._thread:
            raise self.stage.device.misuse(
                f"{self._what}.{member} on thread {where}, which is not the one that made it"
            )
