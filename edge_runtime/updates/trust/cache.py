"""The folder of metadata: read, changed as a whole or not at all, and flushed to the disk.

tuf writes file by file and flushes nothing. A cable that is pulled between two of them leaves a new timestamp with
an old snapshot, by which nothing can be verified before the network is back; a power cut leaves empty files. So a
refresh works on a copy, which takes the folder's place when all of it has been verified.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.durable import staged_directory, sync_directory, write_file
from edge_runtime.protocol.metadata_limits import MAX_TARGETS_BYTES
from edge_runtime.updates.trust.chain import KeptMetadata

_HISTORY = "root_history"

Stamp = tuple[tuple[str, int, int, int], ...]


class MetadataFolder:
    """`metadata/`, as tuf's `Updater` lays it out: `timestamp.json`, …, and `root_history/2.root.json`.

    Args:
        path: the folder; it is made when metadata comes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> Stamp:
        """Changes when any file does: name, inode, time of change and length of each."""
        found = []
        for folder in (self.path, self.path / _HISTORY):
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        facts = entry.stat(follow_symlinks=False)
                        found.append((entry.name, facts.st_ino, facts.st_mtime_ns, facts.st_size))
        return tuple(sorted(found))

    def kept(self, anchor: bytes, anchor_version: int) -> KeptMetadata:
        """What lies here; a file that cannot be read is one that is missing.

        Args:
            anchor: the root from which the chain starts.
            anchor_version: of that root; older ones are of no use.
        """
        roots = {}
        for version, path in self._roots().items():
            if version > anchor_version and (data := _read(path)) is not None:
                roots[version] = data
        files = {}
        with contextlib.suppress(OSError):
            for path in self.path.glob("*.json"):
                if path.name != "root.json" and (data := _read(path)) is not None:
                    files[path.stem] = data
        return KeptMetadata(anchor, roots, files)

    def root(self, version: int) -> bytes | None:
        """The file of a root that was reached once, or None."""
        return _read(self.path / _HISTORY / f"{version}.root.json")

    @contextlib.contextmanager
    def staged(self) -> Iterator["MetadataFolder"]:
        """A copy to work on, which takes this folder's place when the block ends without an error.

        When it ends with one, roots that were verified in the copy stay here: who holds the newest root back after
        a device has seen it does not make it forget that keys were revoked.

        Raises:
            OSError: the disk is full or cannot be written; this folder is as it was.
        """
        with staged_directory(self.path) as stage:
            copy = MetadataFolder(stage)
            self._link_into(stage)
            try:
                yield copy
            except BaseException:
                self._keep_roots(copy)
                raise
            copy._flush(self)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """This process alone refreshes, and what a power cut left of an earlier refresh is cleared away.

        Raises:
            BlockingIOError: another process does.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(
            self.path.parent / f".{self.path.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in self.path.parent.glob(f".{self.path.name}.*"):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            os.close(lock)

    def _roots(self) -> dict[int, Path]:
        found = {}
        with contextlib.suppress(OSError):
            for path in (self.path / _HISTORY).glob("*.root.json"):
                number = path.name.removesuffix(".root.json")
                if number.isascii() and number.isdigit() and len(number) < 10:
                    found[int(number)] = path
        return found

    def _link_into(self, stage: Path) -> None:
        """The same files under a second name: tuf replaces files and never writes into one."""
        (stage / _HISTORY).mkdir()
        for path in [*self.path.glob("*.json"), *self._roots().values()]:
            if path.is_file() and not path.is_symlink():
                os.link(path, stage / path.relative_to(self.path))

    def _keep_roots(self, copy: "MetadataFolder") -> None:
        known = self._roots()
        for version, path in copy._roots().items():
            if version not in known and (data := _read(path)) is not None:
                (self.path / _HISTORY).mkdir(parents=True, exist_ok=True)
                write_file(self.path / _HISTORY / path.name, data, 0o600)

    def _flush(self, old: "MetadataFolder") -> None:
        """Flush what is new here; the rest was flushed when it was."""
        before = {inode for _, inode, _, _ in old.stamp()}
        for path in self.path.rglob("*.json"):
            if not path.is_symlink() and path.stat().st_ino not in before:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        sync_directory(self.path / _HISTORY)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TARGETS_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_TARGETS_BYTES else None
