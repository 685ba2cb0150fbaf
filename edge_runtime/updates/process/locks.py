"""What keeps a new release from being put in use: locks of applications, which end with them, and those of people.

An application takes a shared lock on `STATE/updates/lock`, as `flock -s STATE/updates/lock COMMAND` does in any
language: the kernel releases it when its process ends, however it ends. While a release is put in use the file is
locked exclusively, so that an application that asks in this moment waits for its end.
A person's lock is a file with a reason; it stays until somebody removes it, across restarts.
"""

import contextlib
import fcntl
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError

LOCK, FOLDER = "lock", "locks"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST_BYTES = 4096
_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class PersonsLock:
    """A lock that somebody set.

    Attributes:
        since: ISO 8601, by the wall clock of then.
    """

    name: str
    reason: str
    since: str


class Locks:
    """The locks of one device.

    Args:
        root: `STATE/updates`; it is there.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._file: int | None = None

    def why(self) -> str | None:
        """Which lock is held, in a sentence that stays the same while nothing changes; None where none is."""
        for lock in persons_locks(self._root):
            return f"locked by {lock.name}: {lock.reason}"
        if self._file is None:
            if not self.hold():
                return "an application holds the lock of updates"
            self.let_go()
        return None

    def hold(self) -> bool:
        """Keep applications from taking a lock; False where one holds it, or where nobody can say."""
        if self._file is not None:
            return True
        try:
            found = os.open(self._root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(found)
            return False
        self._file = found
        return True

    def let_go(self) -> None:
        """Applications may take it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def persons_locks(root: Path) -> list[PersonsLock]:
    """Locks that people set, by name. A file that cannot be read is one as well: whoever made it meant it."""
    try:
        names = sorted(path.name for path in (root / FOLDER).iterdir())
    except OSError:
        return []
    return [_read(root / FOLDER / name, name) for name in names if _NAME.fullmatch(name)]


def _read(path: Path, name: str) -> PersonsLock:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), path.open("rb") as file:
        found = json.loads(file.read(_MOST_BYTES))
        return PersonsLock(name, str(found["reason"])[:_REASON_CHARACTERS], str(found["since"])[:40])
    return PersonsLock(name, "no reason can be read", "")


def lock(root: Path, name: str, reason: str, since: str) -> None:
    """Set a person's lock, or give one another reason.

    Raises:
        ConfigError: the name or the reason cannot be used, or the folder not be written.
    """
    path = _path(root, name)
    text = " ".join(reason.split())
    if not text or len(text) > _REASON_CHARACTERS:
        raise ConfigError(f"a reason has 1 to {_REASON_CHARACTERS} characters: it is told to the fleet")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, json.dumps({"reason": text, "since": since}).encode(), 0o600)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def unlock(root: Path, name: str) -> bool:
    """Remove a person's lock; whether there was one.

    Raises:
        ConfigError: the name cannot be used, or the folder not be written.
    """
    path = _path(root, name)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return True


def _path(root: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ConfigError("a lock's name has 1 to 64 letters, digits, dots, - and _")
    return root / FOLDER / name
