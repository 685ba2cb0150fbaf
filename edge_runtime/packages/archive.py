"""A package as a single file: an uncompressed tar with fixed metadata, the same bytes for the same package.

Tar because weights do not compress and an uncompressed archive cannot be a bomb: what it unpacks to is
bounded by its own size. Only plain files are taken out; links, devices, absolute names and `..` are refused.
Decision 0011.
"""

import io
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from edge_runtime.durable import sha256_file, staged_directory, write_file
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import MANIFEST_NAME

DOCUMENTS: Final = ("CARD.md", "LICENSE", "NOTICE", "recipe.json")
"""Files beside the manifest that travel along without deciding anything."""

MAX_ARCHIVE_BYTES: Final = 4 << 30
MAX_MEMBERS: Final = 256


def pack(members: Mapping[str, Path], archive: Path) -> str:
    """Write an archive and return its SHA-256.

    Args:
        members: file to read by name inside the archive; the manifest must be among them.
        archive: the file to write, whole or not at all.

    Raises:
        PackageError: a member or the archive cannot be read or written.
    """
    names = sorted(members, key=lambda name: (name != MANIFEST_NAME, name))
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name in names:
                data = members[name].read_bytes()
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = len(data), 0o644, 0
                tar.addfile(info, io.BytesIO(data))
        write_file(archive, buffer.getvalue())
    except OSError as error:
        raise PackageError(f"{error.filename or archive}: {error.strerror}") from error
    except ValueError as error:  # a name that ustar cannot hold
        raise PackageError(f"{archive.name} cannot be written: {error}") from error
    return sha256_file(archive)


def _require_manifest(directory: Path) -> None:
    if not (directory / MANIFEST_NAME).is_file():
        raise PackageError(f"{directory} is no model package: it has no {MANIFEST_NAME}")


def unpacked(
    archive: Path, cache: Path | None = None, *, verify: Callable[[Path], None] = _require_manifest
) -> Path:
    """The folder that `archive` unpacks to; unpacked once for each digest, whole or not at all.

    Args:
        archive: the file.
        cache: where to unpack; `default_cache()` when None.
        verify: raises a PackageError for a folder that is no valid package. Such a one is never kept, and one
            that was damaged since it was unpacked is replaced.

    Raises:
        PackageError: it is no archive of a package, or holds something that a package never holds.
    """
    cache = cache or default_cache()
    try:
        if archive.stat().st_size > MAX_ARCHIVE_BYTES:
            raise PackageError(f"{archive} is larger than a package may be ({MAX_ARCHIVE_BYTES >> 30} GiB)")
        target = cache / "packages" / sha256_file(archive)
    except OSError as error:
        raise PackageError(f"{archive}: cannot be read: {error.strerror}") from error
    if target.is_dir():
        try:
            verify(target)
        except PackageError:
            shutil.rmtree(target, ignore_errors=True)
        else:
            return target
    try:
        with staged_directory(target) as staged:
            _extract(archive, staged)
            verify(staged)
    except OSError as error:
        raise PackageError(f"{archive} cannot be unpacked into {cache}: {error.strerror}") from error
    return target


def default_cache() -> Path:
    """`$EDGE_RUNTIME_CACHE`, else `$XDG_CACHE_HOME/edge-runtime`, else `~/.cache/edge-runtime`."""
    if own := os.environ.get("EDGE_RUNTIME_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edge-runtime"


def _extract(archive: Path, directory: Path) -> None:
    try:
        with tarfile.open(archive, mode="r:") as tar:
            names = set()
            for count, info in enumerate(tar):
                if count >= MAX_MEMBERS:
                    raise PackageError(f"{archive} holds more than {MAX_MEMBERS} files: not a model package")
                _check_member(archive, info)
                if info.name in names:
                    raise PackageError(f"{archive} holds {info.name!r} twice: not made by this tool")
                names.add(info.name)
                stream = tar.extractfile(info)
                if stream is None:  # only for members that _check_member refuses
                    raise PackageError(f"{archive}: {info.name!r} cannot be read")
                _write_member(archive, info.name, directory, stream.read())
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise PackageError(
            f"{archive} is neither a package folder nor an archive made by `edge-runtime model pack`"
        ) from error
    if MANIFEST_NAME not in names:
        raise PackageError(f"{archive} is no model package: it has no {MANIFEST_NAME}")


def _write_member(archive: Path, name: str, directory: Path, data: bytes) -> None:
    target = directory / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, data)
    except OSError as error:
        raise PackageError(f"{archive}: its member {name!r} cannot be unpacked: {error.strerror}") from error


def _check_member(archive: Path, info: tarfile.TarInfo) -> None:
    pure = PurePosixPath(info.name)
    plain = info.isreg() and not info.issparse()
    if not plain or pure.is_absolute() or ".." in pure.parts or str(pure) != info.name or "\0" in info.name:
        raise PackageError(
            f"{archive} holds {info.name!r}, which is not a plain file inside the package: refused"
        )
