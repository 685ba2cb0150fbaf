"""Whether a server runs on a data directory, and where: a lock that dies with it, and a file beside the lock."""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

from edge_runtime.errors import ConfigError
from fleet_server.authority.files import write_whole
from fleet_server.paths import ServerPaths

_MAX_BYTES = 64 * 1024
_TRIES, _PAUSE_S = 10, 0.05


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server.

    Attributes:
        port: of the HTTP API.
        broker: HOST:PORT that devices are told.
        database: its URL, which may hold a password; the file is readable by its owner alone.
    """

    pid: int
    port: int
    broker: str
    database: str = field(repr=False)


class ServeLock:
    """Makes this process the only server of a data directory.

    Args:
        paths: of the directory.

    Raises:
        ConfigError: another process is, or the directory cannot be written.
    """

    def __init__(self, paths: ServerPaths) -> None:
        self._paths = paths
        self._handle = -1

    def __enter__(self) -> "ServeLock":
        try:
            self._paths.run.mkdir(mode=0o700, exist_ok=True)
            self._handle = os.open(_lock(self._paths), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._take()
        except BlockingIOError:
            raise ConfigError(
                f"another server runs on {self._paths.root}: one directory has one server"
            ) from None
        except OSError as error:
            raise ConfigError(f"{self._paths.run}: {error.strerror}") from None
        _file(self._paths).unlink(missing_ok=True)  # of a server that was killed
        return self

    def _take(self) -> None:
        """A command that just looks whether a server runs holds the lock for a moment."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_PAUSE_S)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def announce(self, server: RunningServer) -> None:
        """Let commands on this machine know where it is."""
        write_whole(_file(self._paths), json.dumps(asdict(server)).encode(), 0o600)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _file(self._paths).unlink(missing_ok=True)
        os.close(self._handle)


def running_server(paths: ServerPaths) -> RunningServer | None:
    """The server that runs on a data directory, or None: there is none, or it is just starting."""
    try:
        handle = os.open(_lock(paths), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(_file(paths))
    finally:
        os.close(handle)
    return None


def _read(path: Path) -> RunningServer | None:
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(_MAX_BYTES))
        return RunningServer(
            pid=int(found["pid"]),
            port=int(found["port"]),
            broker=str(found["broker"]),
            database=str(found["database"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lock(paths: ServerPaths) -> Path:
    return paths.run / "serve.lock"


def _file(paths: ServerPaths) -> Path:
    return paths.run / "server.json"
