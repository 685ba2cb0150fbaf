"""The real ingest process on a data directory of its own, with a real broker: start, kill, stop, what it said."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.rigs.brokers import Broker

_READY_S = 60.0
"""It takes 2 s; a machine that runs all tests at once on slow cores took more than 30."""


class IngestProcess:
    """One ingest process.

    Args:
        directory: made as `fleet init` would, as far as ingest reads it.
        broker: which it connects to.
        database: URL.
        extra: more lines of settings.toml; a section must be complete in it.
        number: of the worker.
    """

    def __init__(
        self, directory: Path, broker: Broker, database: str, *, extra: str = "", number: int = 1
    ) -> None:
        self.directory, self._number = directory, number
        self._environment = {**os.environ, "FLEET_DATABASE": database}
        self._environment["FLEET_BROKER"] = f"mqtts://{broker.host}:{broker.port}"
        mine = broker.parties["fleet-ingest"]
        for folder in ("authority", "tls", "evidence"):
            (directory / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(mine.authority, directory / "authority" / "ca.pem")
        shutil.copy(mine.certificate, directory / "tls" / "ingest.pem")
        shutil.copy(mine.key, directory / "tls" / "ingest.key")
        (directory / "settings.toml").write_text(f"version = 1\n{extra}\n")
        self.log = directory / f"ingest-{number}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = threading.Event()

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it is subscribed."""
        self._ready.clear()
        command = [sys.executable, "-m", "fleet_server.ingest", "--data", str(self.directory)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--worker", str(self._number)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        if wait:
            assert self._ready.wait(_READY_S), f"ingest was not ready:\n{self.said()}"

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if line == b"ready\n":
                    self._ready.set()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def said(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self, timeout: float = 30) -> int:
        """Until it has ended; the exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        self._process = None
        return code

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)


@contextlib.contextmanager
def running(process: IngestProcess) -> Iterator[IngestProcess]:
    """A started process, gone at the end whatever happened."""
    try:
        process.start()
        yield process
    finally:
        process.kill()


def wait_for(condition: Callable[[], object], timeout: float = 20.0) -> bool:
    """Whether a callable became true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
