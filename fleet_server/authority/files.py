"""Files of the authority: whole or absent, and private where they hold a key."""

from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError, EdgeRuntimeError

MAX_PEM_BYTES = 65_536


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Write `data` so that `path` shows the old content or all of the new one, also after a power cut.

    Raises:
        ConfigError: the folder cannot be written or the disk is full; nothing is left behind.
    """
    try:
        write_file(path, data, mode)
    except OSError as error:
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
