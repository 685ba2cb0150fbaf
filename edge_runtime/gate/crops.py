"""Crops on their way: read from the ring exactly as the event names them, written where the outbox looks."""

import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Protocol

from edge_runtime.durable import write_file
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.outbox import EvidenceFile
from edge_runtime.protocol import EvidenceRef
from edge_runtime.state import StateDirectory

MAX_CROP_BYTES = 4 * 1024 * 1024
"""The configuration allows no larger crop."""


class CropMissing(EdgeRuntimeError):
    """A crop is gone, is not the one that the event names, or cannot be written."""


class Crops(Protocol):
    """Where crops of events lie."""

    def read(self, ref: EvidenceRef) -> bytes:
        """The bytes that `ref` names.

        Raises:
            CropMissing: there are none, or others.
        """
        ...


class CropFolder:
    """The ring's folder, only ever read.

    Args:
        directory: of the ring.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, ref: EvidenceRef) -> bytes:
        """The bytes that `ref` names.

        Raises:
            CropMissing: the file is gone, or its length or digest is another.
        """
        if "/" in ref.name or "\0" in ref.name or ref.name in (".", ".."):
            raise CropMissing("the event names no file of the ring")
        return read_crop(self._directory / ref.name, ref.sha256, ref.bytes)


def read_crop(path: Path, sha256: str, size: int) -> bytes:
    """A crop file, if it holds what it should. Links are not followed.

    Raises:
        CropMissing: it does not.
    """
    if not 0 < size <= MAX_CROP_BYTES:
        raise CropMissing("no crop has that size")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise CropMissing("the crop is no file")
            data = os.pread(fd, size + 1, 0)
        finally:
            os.close(fd)
    except OSError:
        raise CropMissing("the crop is no longer on the device") from None
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        raise CropMissing("the crop is not the one that the event names")
    return data


def store_crop(data: bytes, state: StateDirectory) -> EvidenceFile:
    """Put a crop where the outbox expects it, so that a power cut leaves all of it or nothing.

    Raises:
        CropMissing: the disk is full or cannot be written.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        # the outbox knows the name of an unfinished crop, and clears it away
        part = f".{sha256[:16]}.{secrets.token_hex(4)}.part"
        write_file(state.evidence_file(sha256), data, 0o600, part=part)
    except OSError as error:
        raise CropMissing(f"the crop cannot be kept: {error.strerror}") from None
    return EvidenceFile(sha256, len(data))
