"""Files that are either whole or absent: digest, write beside, flush, rename.

A device loses power at any moment. A name that exists must therefore always lead to complete, verified bytes:
they are written under another name, flushed to the disk, and renamed.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 20
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces so that a large one does not fill the memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def sync_directory(directory: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: Path, data: bytes, mode: int = 0o644, *, part: str | None = None) -> None:
    """Write `data` so that `path` shows the old content or all of the new one, never a part.

    Args:
        path: the file.
        data: all of it.
        mode: of the file.
        part: name beside it until it is whole, new each time, where somebody clears away by that name what a power
            cut leaves of it.

    Raises:
        OSError: the folder cannot be written or the disk is full; nothing is left behind.
    """
    if part is None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        staged = Path(name)
    else:
        staged = path.with_name(part)
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        staged.replace(path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextlib.contextmanager
def staged_directory(target: Path) -> Iterator[Path]:
    """A folder beside `target` to fill; it takes `target`'s place when the block ends without an error.

    An existing `target` stays as it was until the new one is complete.

    Raises:
        OSError: the parent cannot be written; nothing is left behind.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        yield staged
        staged.chmod(0o755)
        for path in staged.rglob("*"):
            if path.is_dir():
                sync_directory(path)
        sync_directory(staged)
        _take_place(staged, target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _take_place(staged: Path, target: Path) -> None:
    if not target.exists():
        staged.rename(target)
        sync_directory(target.parent)
        return
    if exchange(staged, target):  # the old one now lies under the staged name, to be removed
        sync_directory(target.parent)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
    # Between these two renames there is no target: a cut there leaves the old one in the hidden folder.
    target.rename(old / "old")
    try:
        staged.rename(target)
    except OSError:
        (old / "old").rename(target)
        old.rmdir()
        raise
    sync_directory(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def exchange(first: Path, second: Path) -> bool:
    """Let two names change places at once; False where the system or the file system cannot.

    Python has no call for it: renameat2(2), Linux 3.15 and glibc 2.28.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if not call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(second))
