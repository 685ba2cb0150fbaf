"""One child process with a log and a ready line; it ends with whoever spawned it, however that ends."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.lifeline import told_parent
from fleet_server.broker import launch

_START_S = 240.0
_END_S = 20.0
_WITH_PARENT = "--with-parent"


class RoadError(EdgeRuntimeError):
    """A part of the road did not do what it should; the text holds what it said."""


def bound(arguments: Sequence[str]) -> list[str]:
    """A command line that ends with this process: SIGTERM once the thread that spawns it has ended."""
    if _WITH_PARENT in arguments:
        return list(arguments)  # it asks for that itself, told by its environment
    return [sys.executable, launch.__file__, str(os.getpid()), *arguments]


@dataclass(slots=True)
class Process:
    """One child with its log; started, killed and started again.

    Spawn it from a thread that lives as long as it should: the kernel watches the thread, not the process.

    Attributes:
        arguments: its command line.
        log: its standard error is appended here.
        variables: set in its environment beside ours.
    """

    arguments: Sequence[str]
    log: Path
    variables: dict[str, str] | None = None
    _process: "subprocess.Popen[str] | None" = None
    _file: IO[str] | None = None

    @property
    def pid(self) -> int:
        """Of the running process.

        Raises:
            RoadError: it is not running.
        """
        if self._process is None or self._process.poll() is not None:
            raise RoadError(f"{self.log.stem} is not running")
        return self._process.pid

    def start(self) -> str:
        """Start it; its ready line.

        Raises:
            RoadError: it did not become ready.
        """
        self.spawn()
        return self.ready()

    def spawn(self) -> None:
        """Start it, and do not wait: `ready` must follow."""
        environment = {**os.environ, **(self.variables or {})}
        self._file = self.log.open("a", encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - our own commands
            bound(self.arguments),
            stdout=subprocess.PIPE,
            stderr=self._file,
            text=True,
            start_new_session=True,
            env=told_parent(environment) if _WITH_PARENT in self.arguments else environment,
        )

    def ready(self) -> str:
        """Wait for its ready line.

        Raises:
            RoadError: it did not become ready.
        """
        stream = self._process.stdout if self._process is not None else None
        deadline, said = time.monotonic() + _START_S, b""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
            while stream is not None and (left := deadline - time.monotonic()) > 0 and selector.select(left):
                # past Python's buffer: lines that lie in it would not be seen by select
                part = os.read(stream.fileno(), 4096)
                said += part
                for line in said.split(b"\n")[:-1]:
                    if line.split()[:1] == [b"ready"]:
                        return line.decode("utf-8", "replace").strip()
                if not part:
                    break
        self.kill()
        raise RoadError(f"{self.log.stem} did not start: {self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-800:] if self.log.exists() else ""

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and SIGKILL for who does not obey; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._file is not None:
            self._file.close()
        self._process = self._file = None
        return code
