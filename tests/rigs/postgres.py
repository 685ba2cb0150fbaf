"""A real PostgreSQL cluster for tests: its own folder and Unix socket, no TCP, an unprivileged user.

@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    yield from postgres_cluster()

url = postgres.new_database()           # an empty database, one for each test
postgres.kill(); postgres.start()       # SIGQUIT, as a crash, and back with the same data

Where the server's programs are absent, a laptop skips and CI fails.
"""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests.rigs import warden

_PROGRAMS = Path("/usr/lib/postgresql")
_READY_S = 30.0


def programs() -> Path | None:
    """The folder of initdb and postgres, the newest version first; None where there is none."""
    found = sorted(_PROGRAMS.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]), reverse=True)
    if found:
        return found[0].parent
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else None


class PostgresCluster:
    """One cluster. The folder lies directly below /tmp: a socket's path has at most 107 bytes.

    Args:
        binaries: folder of the programs.
        durable: wait for the disk at every commit. Without it a commit still survives the death of any process, as
            the kernel has it; only a power cut would lose it, and tests run many times faster.
    """

    def __init__(self, binaries: Path, *, durable: bool = False) -> None:
        self._binaries, self._durable = binaries, durable
        self._folder = Path(tempfile.mkdtemp(prefix="fleet-pg-"))
        self._data = self._folder / "data"
        self._counter = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._warden = warden.watch(self._folder, self._data / "postmaster.pid")
        self._user, self._ids = self._unprivileged()
        if self._ids is not None:
            os.chown(self._folder, *self._ids)
        options = ["--auth=trust", "--username=fleet", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [str(binaries / "initdb"), f"--pgdata={self._data}", *options],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._identity(),
        )

    @property
    def pid(self) -> int:
        """Of the postmaster."""
        assert self._process is not None, "the cluster is not running"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """URL of one of its databases, as `open_store` takes it."""
        return f"postgresql://fleet@/{database}?host={quote(str(self._folder), safe='')}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-k", str(self._folder)]
        command += ["-c", "listen_addresses=", "-c", "max_connections=60", "-c", "shared_buffers=32MB"]
        if not self._durable:
            command += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, **self._identity()
            )
        deadline = time.monotonic() + _READY_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self._folder / "log").read_text()[-2000:]
                raise AssertionError(f"PostgreSQL did not start:\n{text}") from None
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once, without a checkpoint, as a crash would; every connection is cut."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it and cut every connection."""
        self._end(signal.SIGINT)

    def new_database(self) -> str:
        """URL of a new empty database."""
        name = f"test_{next(self._counter)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def remove(self) -> None:
        """Stop it and delete its files."""
        with contextlib.suppress(ProcessLookupError):
            self.kill()  # no checkpoint of what is deleted anyway
        self._warden.communicate()  # it deletes the folder

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _unprivileged(self) -> tuple[str, tuple[int, int] | None]:
        """PostgreSQL refuses to run as root: then it is the user that its package made, or nobody."""
        if os.geteuid() != 0:
            return pwd.getpwuid(os.geteuid()).pw_name, None
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                entry = pwd.getpwnam(name)
                return name, (entry.pw_uid, entry.pw_gid)
        raise AssertionError("no unprivileged user to run PostgreSQL as")

    def _identity(self) -> dict[str, Any]:
        if self._ids is None:
            return {}
        return {"user": self._ids[0], "group": self._ids[1], "extra_groups": []}


def postgres_cluster() -> Iterator[PostgresCluster]:
    """The body of a session's fixture: a started cluster, removed at the end whatever happened."""
    binaries = programs()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    cluster = PostgresCluster(binaries)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()
