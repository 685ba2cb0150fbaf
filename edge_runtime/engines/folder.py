"""The folders of the engine store, and its locks.

```
STATE/engines/KEY.engine        an engine; without its manifest it is garbage
STATE/engines/KEY.json          its manifest, written last
STATE/engines/recent.json       keys in the order of their last use
STATE/engines/holds/            who uses which engine
STATE/engines/failures/         what went wrong with a key
STATE/engines/timing/           timing caches of the builder
STATE/engines/building/         builds that are under way
STATE/engines/quarantine/       what must not be loaded, with the reason
STATE/engines/locks/            store.lock, and one for each key
```
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.durable import NO_ROOM
from edge_runtime.engines.errors import StoreBusy, StoreUnusable
from edge_runtime.engines.records import PART, names_in, remove_whatever

STORE_WAIT_S: Final = 30.0
"""How long to wait for the store's own lock; nobody holds it for longer than it takes to write an engine."""

_POLL_S: Final = 0.05
_LONGEST_POLL_S: Final = 0.5


def loading_lock(key: str) -> str:
    """Name of the lock that one of the processes that load an engine holds; see `StoreFolder.locked`."""
    return f"{key}.load"


class StoreFolder:
    """Paths below the store's directory.

    Args:
        path: the directory; it may be a symbolic link to one. Nothing is made before something is written.
        clock: measures how long a lock is waited for.
        sleep: waits between two tries for a lock, seconds.
    """

    def __init__(self, path: Path, clock: Clock, sleep: Callable[[float], None] = time.sleep) -> None:
        self.path = path
        self._clock = clock
        self._sleep = sleep

    def engine(self, key: str) -> Path:
        """Where the engine of a key lies."""
        return self.path / f"{key}.engine"

    def manifest(self, key: str) -> Path:
        """Where its manifest lies."""
        return self.path / f"{key}.json"

    @property
    def recent(self) -> Path:
        """The order of last use."""
        return self.path / "recent.json"

    @property
    def holds(self) -> Path:
        """Folder of who uses what."""
        return self.path / "holds"

    @property
    def failures(self) -> Path:
        """Folder of what went wrong."""
        return self.path / "failures"

    @property
    def timing(self) -> Path:
        """Folder of timing caches."""
        return self.path / "timing"

    @property
    def quarantine(self) -> Path:
        """Folder of what must not be loaded."""
        return self.path / "quarantine"

    @property
    def building(self) -> Path:
        """Folder of builds that are under way, each named by its key, whose lock its builder holds."""
        return self.path / "building"

    @property
    def locks(self) -> Path:
        """Folder of locks."""
        return self.path / "locks"

    def make(self) -> None:
        """Make the directory and its folders, readable by their owner alone.

        Raises:
            StoreUnusable: they cannot be made, or a link or a file is in the place of one.
        """
        with self.explained():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.holds, self.failures, self.timing, self.quarantine, self.locks):
                folder.mkdir(mode=0o700, exist_ok=True)
                _require_folder(folder)
            with contextlib.suppress(FileNotFoundError):  # it is there while an engine is built
                _require_folder(self.building)

    @contextlib.contextmanager
    def owned(self, wait_s: float = STORE_WAIT_S) -> Iterator[None]:
        """Hold the store's lock: nobody else writes below the directory, and every unfinished file is garbage.

        Args:
            wait_s: wait for it at most this long.

        Raises:
            StoreBusy: another process holds it for longer than that.
            StoreUnusable: the directory cannot be written.
        """
        self.make()
        with self.locked("store", wait_s, "the engine store is in use"):
            yield

    @contextlib.contextmanager
    def locked(
        self, name: str, wait_s: float, what: str, stop: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """Hold a lock, which ends with the process at the latest.

        Args:
            name: of the lock.
            wait_s: wait at most this long; 0 tries once.
            what: begins the sentence when it was in vain.
            stop: asked while waiting; True gives up.

        Raises:
            StoreBusy: somebody else holds it; the text says who, and since when.
            StoreUnusable: the lock's file cannot be used.
        """
        path = self.locks / f"{name}.lock"
        begun_ns = self._clock.monotonic_ns()
        pause_s = _POLL_S
        while True:
            with self.explained():
                handle, holder = self._try(path)
            if handle is not None:
                break
            waited_s = (self._clock.monotonic_ns() - begun_ns) / NS_PER_S
            if waited_s >= wait_s or (stop is not None and stop()):
                raise StoreBusy(f"{what} by {holder}: waited {waited_s:.0f} s for it")
            self._sleep(min(pause_s, max(wait_s - waited_s, 0.001)))
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)
        try:
            yield
        finally:
            os.close(handle)

    def in_use(self, key: str) -> str | None:
        """Who holds the lock of a key, as text; None where nobody does."""
        path = self.locks / f"{key}.lock"
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._holder(handle)
        except OSError:
            return None
        finally:
            os.close(handle)
        return None

    def sweep(self) -> list[str]:
        """Remove what killed processes left: unfinished files, engines without a manifest, builds and locks.

        The caller holds the store's lock.

        Returns:
            Names of what was removed.

        Raises:
            OSError: something cannot be listed or removed.
        """
        removed = []
        names = names_in(self.path)
        known = set(names)
        for name in names:
            orphan = name.endswith(".engine") and f"{name.removesuffix('.engine')}.json" not in known
            if PART in name or orphan:
                remove_whatever(self.path / name)
                removed.append(name)
        for folder in (self.holds, self.failures, self.timing):
            for name in names_in(folder):
                if PART in name:
                    remove_whatever(folder / name)
                    removed.append(name)
        for name in names_in(self.building):
            if self.in_use(name) is None:
                remove_whatever(self.building / name)
                removed.append(name)
        locks = [name for name in names_in(self.locks) if name != "store.lock"]
        return removed + [name for name in locks if self._drop_lock(self.locks / name)]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the system says into a sentence.

        Raises:
            StoreUnusable: instead of OSError.
        """
        try:
            yield
        except OSError as error:
            raise StoreUnusable(self.sentence(error)) from None

    def sentence(self, error: OSError) -> str:
        """What an OSError means for the store, and what to do."""
        why = error.strerror or type(error).__name__
        shown = f"the engine store {self.path} cannot be used: {why}"
        if error.filename and Path(os.fsdecode(error.filename)) != self.path:
            shown += f" ({Path(os.fsdecode(error.filename)).name})"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"{shown}; make it writable for this user, or name another directory with --state"
        if error.errno in NO_ROOM:
            return f"{shown}; make room on its disk, or remove engines with `edge-runtime engine prune`"
        return shown

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
                holder = self._holder(handle)
                os.close(handle)
                return None, holder
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # the last holder's sweep removed it between opening and locking

    def _sign(self, handle: int) -> None:
        entry = {
            "pid": os.getpid(),
            "boot_id": self._clock.wall().boot_id,
            "since_ns": self._clock.boottime_ns(),
        }
        with contextlib.suppress(
            OSError
        ):  # it is for a sentence only; a full disk must not keep from locking
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(entry).encode(), 0)

    def _holder(self, handle: int) -> str:
        try:
            entry = json.loads(os.pread(handle, 512, 0))
            pid, boot, since_ns = int(entry["pid"]), str(entry["boot_id"]), int(entry["since_ns"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "another process"
        held_s = (self._clock.boottime_ns() - since_ns) // NS_PER_S
        if boot != self._clock.wall().boot_id or held_s < 0:
            return f"process {pid}"
        return f"process {pid} for {held_s} s"

    def _drop_lock(self, path: Path) -> bool:
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


def _require_folder(path: Path) -> None:
    """What lies in the store's folders is removed as garbage: through a link that would be somebody's files."""
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a file"
        raise StoreUnusable(f"{path} is {kind}, not a folder: remove it, and it is made anew")


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
