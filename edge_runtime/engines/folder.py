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
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from edge_runtime.clock import Clock
from edge_runtime.durable import NO_ROOM
from edge_runtime.engines.errors import StoreUnusable
from edge_runtime.engines.locks import Locks
from edge_runtime.engines.records import PART, names_in, remove_whatever

STORE_WAIT_S: Final = 30.0
"""How long to wait for the store's own lock; nobody holds it for longer than it takes to write an engine."""

_KEY: Final = re.compile(r"[0-9a-f]{64}")


def require_key(key: str) -> str:
    """The key itself: it becomes the name of a file.

    Raises:
        ValueError: it is none.
    """
    if not _KEY.fullmatch(key):
        raise ValueError("an engine's key has 64 lower-case hexadecimal digits")
    return key


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
        self._locks = Locks(self.locks, clock, sleep)

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
        with self.explained():
            handle = self._locks.take(name, wait_s, what, stop)
        try:
            yield
        finally:
            os.close(handle)

    def in_use(self, key: str) -> str | None:
        """Who holds the lock of a key, as text; None where nobody does."""
        return self._locks.holder(key)

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
        return removed + self._locks.sweep(but="store")

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


def _require_folder(path: Path) -> None:
    """What lies in the store's folders is removed as garbage: through a link that would be somebody's files."""
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "a file"
        raise StoreUnusable(f"{path} is {kind}, not a folder: remove it, and it is made anew")
