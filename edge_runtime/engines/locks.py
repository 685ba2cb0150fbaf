"""Locks between processes: a file each, which names its holder for a sentence and ends with its process."""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.engines.errors import StoreBusy
from edge_runtime.engines.records import names_in, remove_whatever

_POLL_S: Final = 0.05
_LONGEST_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Locks:
    """A folder of locks.

    Args:
        folder: where they lie; it must be there when one is taken.
        clock: measures how long one is waited for, and held.
        sleep: waits between two tries, seconds.
    """

    folder: Path
    clock: Clock
    sleep: Callable[[float], None]

    def take(self, name: str, wait_s: float, what: str, stop: Callable[[], bool] | None = None) -> int:
        """A descriptor that holds a lock until it is closed.

        Args:
            name: of the lock.
            wait_s: wait at most this long; 0 tries once.
            what: begins the sentence when it was in vain.
            stop: asked while waiting; True gives up.

        Raises:
            StoreBusy: somebody else holds it; the text says who, and since when.
            OSError: the lock's file cannot be used.
        """
        path = self.folder / f"{name}.lock"
        begun_ns, pause_s = self.clock.monotonic_ns(), _POLL_S
        while True:
            handle, holder = self._try(path)
            if handle is not None:
                return handle
            waited_s = (self.clock.monotonic_ns() - begun_ns) / NS_PER_S
            if waited_s >= wait_s or (stop is not None and stop()):
                raise StoreBusy(f"{what} by {holder}: waited {waited_s:.0f} s for it")
            self.sleep(min(pause_s, max(wait_s - waited_s, 0.001)))
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)

    def holder(self, name: str) -> str | None:
        """Who holds a lock, as text; None where nobody does."""
        path = self.folder / f"{name}.lock"
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._told(handle)
        except OSError:
            return None
        finally:
            os.close(handle)
        return None

    def sweep(self, *, but: str) -> list[str]:
        """Remove the files of locks that nobody holds, all but one; names of what was removed.

        Raises:
            OSError: one cannot be removed.
        """
        return [
            name for name in names_in(self.folder) if name != f"{but}.lock" and _dropped(self.folder / name)
        ]

    def _try(self, path: Path) -> tuple[int | None, str]:
        """A descriptor that holds the lock; or None and who does."""
        while True:
            _require_file(path)
            handle = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
            )
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _leads_to(path, os.fstat(handle)):
                    self._sign(handle)
                    return handle, ""
            except BlockingIOError:
                holder = self._told(handle)
                os.close(handle)
                return None, holder
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # the last holder's sweep removed it between opening and locking

    def _sign(self, handle: int) -> None:
        entry = {
            "pid": os.getpid(),
            "boot_id": self.clock.wall().boot_id,
            "since_ns": self.clock.boottime_ns(),
        }
        with contextlib.suppress(OSError):  # it is for a sentence; a full disk must not keep from locking
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(entry).encode(), 0)

    def _told(self, handle: int) -> str:
        try:
            entry = json.loads(os.pread(handle, 512, 0))
            pid, boot, since_ns = int(entry["pid"]), str(entry["boot_id"]), int(entry["since_ns"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "another process"
        held_s = (self.clock.boottime_ns() - since_ns) // NS_PER_S
        if boot != self.clock.wall().boot_id or held_s < 0:
            return f"process {pid}"
        return f"process {pid} for {held_s} s"


def _dropped(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        remove_whatever(path)
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_whatever(path)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _require_file(path: Path) -> None:
    """Whatever else has a lock's name is nobody's lock, and goes."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            remove_whatever(path)


def _leads_to(path: Path, facts: os.stat_result) -> bool:
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (facts.st_dev, facts.st_ino)
