"""Files of the authority: whole or absent, and private where they hold a key."""

import os
import tempfile
from pathlib import Path

from edge_runtime.errors import ConfigError, EdgeRuntimeError

MAX_PEM_BYTES = 65_536


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Write `data` so that `path` shows the old content or all of the new one, also after a power cut.

    Raises:
        ConfigError: the folder cannot be written or the disk is full; nothing is left behind.
    """
    staged: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600 from the beginning
        staged = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        staged.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if staged is not None:
            staged.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def read_pem(path: Path) -> bytes:
    """A PEM file, at most 64 KiB of it.

    Raises:
        EdgeRuntimeError: it is missing, cannot be read, or is far too large.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise EdgeRuntimeError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_PEM_BYTES:
        raise EdgeRuntimeError(f"{path} is no PEM file: it is larger than {MAX_PEM_BYTES} bytes")
    return data
