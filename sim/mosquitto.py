"""mosquitto as an operator would run it beside a fleet server: it reads the files that the server writes."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edge_runtime.errors import EdgeRuntimeError
from fleet_server.broker import ExternalFiles
from fleet_server.broker.mosquitto import MosquittoFiles, mosquitto_config
from fleet_server.paths import ServerPaths
from sim.ports import free_port
from sim.process import bound

_START_S = 20.0
_TOLD_S = 60.0
_SBIN = "/usr/sbin"


class Mosquitto:
    """One mosquitto with the certificates, access list and revocation list of a fleet server's data directory.

    Args:
        folder: for its configuration, its store and its log; made.
        limits: lines of its configuration with other numbers, by their first word.

    Attributes:
        port: on loopback; the same over restarts.
        url: for `fleet serve --broker`.
        reload: command that has a running one read its files anew, for `[broker] reload`.
        log: what it says.
    """

    def __init__(self, folder: Path, limits: Mapping[str, int] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "store").mkdir(exist_ok=True)
        self._folder, self._pid_file, self._limits = folder, folder / "mosquitto.pid", dict(limits or {})
        self.port = free_port()
        self.url = f"mqtts://localhost:{self.port}"
        self.log = folder / "mosquitto.log"
        self.reload = ("/bin/sh", "-c", f"[ ! -s {self._pid_file} ] || kill -HUP $(cat {self._pid_file})")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process.

        Raises:
            EdgeRuntimeError: it does not run.
        """
        if self._process is None:
            raise EdgeRuntimeError("mosquitto does not run")
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended by us."""
        return self._process is not None

    def start(self, data: Path) -> None:
        """Wait until the server has written its files, and start.

        Args:
            data: directory of the fleet server.

        Raises:
            EdgeRuntimeError: it is not installed, the files do not appear, or it does not listen.
        """
        program = shutil.which("mosquitto", path=os.environ.get("PATH", "") + os.pathsep + _SBIN)
        if program is None:
            raise EdgeRuntimeError("mosquitto is not installed: apt-get install mosquitto")
        written = ExternalFiles(ServerPaths(data).external)
        _wait(lambda: written.revoked.exists() and written.access.exists(), _TOLD_S, "files for mosquitto")
        files = MosquittoFiles(
            host="127.0.0.1",
            port=self.port,
            certificate=written.certificate,
            key=written.key,
            authority=written.authority,
            revoked=written.revoked,
            access=written.access,
            store=self._folder / "store",
            system_user=pwd.getpwuid(os.getuid()).pw_name,
        )
        configuration = self._folder / "mosquitto.conf"
        lines = [self._limited(line) for line in mosquitto_config(files).splitlines()]
        configuration.write_text("\n".join([*lines, ""]), encoding="utf-8")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a program of the system
                bound([program, "-c", str(configuration)]), stdout=log, stderr=log, cwd=self._folder
            )
        _wait(self._listens, _START_S, "mosquitto")
        # only now: it ends at a SIGHUP that comes before it can take one
        self._pid_file.write_text(str(self._process.pid), encoding="ascii")

    def kill(self) -> None:
        """SIGKILL."""
        self._pid_file.unlink(missing_ok=True)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _limited(self, line: str) -> str:
        word = line.partition(" ")[0]
        return f"{word} {self._limits[word]}" if word in self._limits else line

    def _listens(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise EdgeRuntimeError(f"mosquitto ended: {self.log.read_text(errors='replace')[-400:]}")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


def _wait(condition: Callable[[], bool], within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise EdgeRuntimeError(f"{what}: not there within {within_s:g} s")
        time.sleep(0.02)
