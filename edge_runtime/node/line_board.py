"""How the line to the fleet stands, left where a screen of the runtime finds it: one small file, written on change.

The uplink is a process of its own, and only it knows why nothing is delivered.
"""

import contextlib
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.clock import Clock
from edge_runtime.durable import write_file
from edge_runtime.state import StateDirectory

_NAME = "line.json"
_MAX_BYTES = 8 * 1024
_MAX_TEXT = 400


class LineRecord(BaseModel):
    """The line as an uplink last saw it.

    Attributes:
        pid: of the uplink's process; what another process left says nothing about now.
        online: there is a session, and the server has answered in it.
        why: why not; None while it is.
        renewal: why the certificate could not be renewed, or None.
        connected: wall label of the last time that the server answered, also before this process; None for never.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int
    online: bool
    why: str | None = Field(default=None, max_length=_MAX_TEXT)
    renewal: str | None = Field(default=None, max_length=_MAX_TEXT)
    connected: str | None = Field(default=None, max_length=40)


class LineBoard:
    """Writes the state of one uplink, from one thread.

    Args:
        state: the device's state directory.
        clock: labels the last connection.
    """

    def __init__(self, state: StateDirectory, clock: Clock) -> None:
        self._file, self._clock = _file(state), clock
        before = _read(self._file)
        self._connected = None if before is None else before.connected
        self._online = False

    def note(self, online: bool, why: str | None, renewal: str | None) -> None:  # noqa: FBT001 - a port's call
        """Say how the line stands. A full disk keeps what was said before."""
        if online and not self._online:
            self._connected = self._clock.wall().isoformat()
        self._online = online
        now = LineRecord(
            pid=os.getpid(),
            online=online,
            why=None if why is None else why[:_MAX_TEXT],
            renewal=None if renewal is None else renewal[:_MAX_TEXT],
            connected=self._connected,
        )
        with contextlib.suppress(OSError):
            write_file(self._file, now.model_dump_json().encode(), 0o600)


def read_line(state: StateDirectory) -> LineRecord | None:
    """What the uplink of a state directory last said; None where none ever ran, or the file cannot be read."""
    return _read(_file(state))


def _file(state: StateDirectory) -> Path:
    return state.path / "uplink" / _NAME


def _read(file: Path) -> LineRecord | None:
    try:
        with file.open("rb") as found:
            return LineRecord.model_validate_json(found.read(_MAX_BYTES))
    except (OSError, ValidationError):
        return None
