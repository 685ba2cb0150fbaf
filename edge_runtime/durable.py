"""Files that are either whole or absent: digest, write beside, flush, rename.

A device loses power at any moment. A name that exists must therefore always lead to complete, verified bytes:
they are written under another name, flushed to the disk, and renamed.

The guard writes its latch with this, and has to evaluate soon after its start: what `write_file` does not need is
imported where it is used (docs/decisions/0278).
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""How the system says that a file cannot grow: the disk is full, the user's share of it, or the file."""

_CHUNK = 1 << 20
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def sha256_file(path: "Path") -> str:
    """Hex SHA-256 of a file, read in pieces so that a large one does not fill the memory."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL

    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def sync_directory(directory: "str | Path") -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: "str | Path", data: bytes, mode: int = 0o644, *, part: str | None = None) -> None:
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
    folder, name = os.path.split(path)
    folder = folder or os.curdir
    staged = os.path.join(folder, f".{name}.{os.urandom(6).hex()}" if part is None else part)
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(staged, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged)
        raise
    sync_directory(folder)


@contextlib.contextmanager
def staged_directory(target: "Path") -> "Iterator[Path]":
    """A folder beside `target` to fill; it takes `target`'s place when the block ends without an error.

    An existing `target` stays as it was until the new one is complete.

    Raises:
        OSError: the parent cannot be written; nothing is left behind.
    """
    import shutil  # noqa: PLC0415 - loads the libraries of compression

    target.parent.mkdir(parents=True, exist_ok=True)
    staged = _hidden_beside(target, ".")
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


def _hidden_beside(target: "Path", ends: str) -> "Path":
    """A new folder beside `target`, for nobody else."""
    import tempfile  # noqa: PLC0415 - loads what shutil does

    name = tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}{ends}")
    return target.with_name(os.path.basename(name))


def _take_place(staged: "Path", target: "Path") -> None:
    import shutil  # noqa: PLC0415 - see above

    if not target.exists():
        staged.rename(target)
        sync_directory(target.parent)
        return
    if exchange(staged, target):  # the old one now lies under the staged name, to be removed
        sync_directory(target.parent)
        return
    old = _hidden_beside(target, ".old.")
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


def exchange(first: "Path", second: "Path") -> bool:
    """Let two names change places at once; False where the system or the file system cannot.

    Python has no call for it: renameat2(2), Linux 3.15 and glibc 2.28.
    """
    import ctypes  # noqa: PLC0415 - loads a library

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if not call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(second))
