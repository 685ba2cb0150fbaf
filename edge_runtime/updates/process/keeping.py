"""The small files of updates on the disk."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.durable import sync_directory, write_file

_MOST_BYTES = 8 << 20


class DiskFiles:
    """`Keeping` below a folder.

    Args:
        root: `STATE/updates`; it is there.
        sweep: names in it, and folders whole, of which what a killed process left half written is cleared away.
    """

    def __init__(self, root: Path, sweep: Sequence[str] = ()) -> None:
        self._root = root
        for name in sweep:
            pattern = f"{name}/.*" if (root / name).is_dir() else f".{name}.*"
            for path in root.glob(pattern):
                with contextlib.suppress(OSError):
                    path.unlink()

    def read(self, name: str) -> bytes | None:
        """A file; None where there is none."""
        try:
            with (self._root / name).open("rb") as file:
                return file.read(_MOST_BYTES)
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Durable when it returns; the folder is made."""
        path = self._root / name
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_directory(path.parent.parent)
        write_file(path, data, 0o600)

    def remove(self, name: str) -> None:
        """Whether it is there or not. After a power cut it may be there again."""
        (self._root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> Sequence[str]:
        """Names in a folder, sorted; of files that were never whole none is told."""
        try:
            found = sorted(path.name for path in (self._root / folder).iterdir())
        except FileNotFoundError:
            return []
        return [name for name in found if not name.startswith(".")]

    def stamp(self, name: str) -> object:
        """Another inode, time or length is another file."""
        try:
            found = (self._root / name).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
