"""A file that is written whole or not at all."""

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from edge_runtime.errors import ConfigError


class WholeFile:
    """Writes beside the file and renames at the end; an exception leaves what was there before.

    Args:
        path: the file; it is made with mode 0600.

    Raises:
        ConfigError: its folder cannot be written, or the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._staged: Path | None = None
        self._stream: BinaryIO | None = None

    def __enter__(self) -> BinaryIO:
        try:
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name[:40]}.")
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from None
        self._staged = Path(name)
        self._stream = os.fdopen(handle, "wb")
        return self._stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._stream is None or self._staged is None:
            return
        try:
            self._stream.close()
            if kind is None:
                self._staged.replace(self._path)
        except OSError as failure:
            raise ConfigError(f"{self._path} cannot be written: {failure.strerror}") from None
        finally:
            self._staged.unlink(missing_ok=True)
