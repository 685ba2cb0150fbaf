"""`fleet release pack`: a folder becomes one file, the same bytes for the same content, and comes out again.

The file is an uncompressed tar: `bundle.json` first, then `files/<path>` sorted; owners, modes and times are fixed.
A model is packed from its package: what the manifest names, and the documents beside it. Nothing is left out in
silence: whatever else lies in the folder is an error.
"""

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import ValidationError

from edge_runtime.durable import sha256_file, staged_directory, sync_directory
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.packages import ModelManifest, open_package
from edge_runtime.packages.archive import DOCUMENTS
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.packages.package import golden_files
from edge_runtime.protocol.release import (
    BUNDLE_NAME,
    MAX_BUNDLE_BYTES,
    MAX_FILES,
    Bundle,
    BundleFile,
    ReleaseKind,
)
from edge_runtime.protocol.release_content import why_file_refused, why_mode_refused
from edge_runtime.protocol.release_values import Declared
from fleet_server.releases.overlays import CONFIGURATION_FILES, read_configuration
from fleet_server.releases.problems import ReleaseRefused

_MEMBERS: Final = "files/"
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """A release's files, where they lie.

    Attributes:
        bundle: the list of them.
        files: by path.
        manifest: of a model's package; None for a configuration.
        values: of single devices that a configuration declares, with their bounds.
    """

    bundle: Bundle
    files: Mapping[str, Path]
    manifest: ModelManifest | None
    values: Declared = field(default_factory=dict)


def content_of(directory: Path, name: str | None = None) -> Content:
    """The content of a folder: a model package, or a configuration.

    Args:
        directory: the folder.
        name: of the line of releases; that of the package when None, which a configuration has not.

    Raises:
        ReleaseRefused: something in it may not be in a release.
        PackageError: it is no package that opens.
        ConfigError: it is neither, or the name cannot be used.
    """
    found = dict(_plain_files(directory))
    if MANIFEST_NAME in found:
        package = open_package(directory)
        manifest: ModelManifest | None = package.manifest
        known = {MANIFEST_NAME, package.manifest.weights.file, *DOCUMENTS}
        known |= {path for path, _ in golden_files(package.manifest)}
        kind, called = ReleaseKind.MODEL, name or package.manifest.name
    elif "overlay.yaml" in found:
        manifest, known = None, set(CONFIGURATION_FILES)
        kind, called = ReleaseKind.CONFIGURATION, name or ""
        if not called:
            raise ConfigError("a configuration has no name of its own: give it one with --name")
    else:
        raise ConfigError(
            f"{directory} is neither a model package ({MANIFEST_NAME}) nor a configuration (overlay.yaml)"
        )
    for path, place in found.items():
        _require_data(path, place)
    values = {} if kind is ReleaseKind.MODEL else read_configuration(found)
    if foreign := sorted(found.keys() - known):
        raise ReleaseRefused(
            "foreign_file",
            f"{directory / foreign[0]} is no part of the {kind.value}: take it out of the folder",
        )
    return Content(_bundle(kind, called, found), found, manifest, values)


def write_release(content: Content, archive: Path) -> str:
    """Write a release as one file.

    Returns:
        The file's SHA-256.

    Raises:
        ReleaseRefused: a file changed while it was read.
        ConfigError: the file cannot be written.
    """
    part = archive.with_name(f".{archive.name}.part")
    try:
        with (
            part.open("wb") as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            _add(tar, BUNDLE_NAME, io.BytesIO(content.bundle.canonical_bytes()))
            for file in content.bundle.files:
                with content.files[file.path].open("rb") as source:
                    if os.fstat(source.fileno()).st_size != file.bytes:
                        raise ReleaseRefused(
                            "changed", f"{content.files[file.path]} changed while it was packed"
                        )
                    _add(tar, _MEMBERS + file.path, source)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(archive)
        sync_directory(archive.parent)
        return sha256_file(archive)
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{archive} cannot be written: {text}") from None
    finally:
        part.unlink(missing_ok=True)


def unpack_release(archive: Path, into: Path) -> Content:
    """Take a release out of its file and verify every byte of it.

    Args:
        archive: from `write_release`.
        into: a folder that is made, or replaced.

    Raises:
        ReleaseRefused: it is not what its bundle says, or holds what may not be in a release.
        ConfigError: it is no such file, or the folder cannot be made.
    """
    try:
        with archive.open("rb") as stream, staged_directory(into) as staged:
            _extract(archive, stream, staged)
    except OSError as error:
        raise ConfigError(f"{error.filename or archive}: {error.strerror}") from None
    bundle = read_bundle(archive)
    found = content_of(into, bundle.name)
    if found.bundle != bundle:
        raise ReleaseRefused("damaged", f"{archive} does not hold what its bundle says: pack it again")
    return found


def read_bundle(archive: Path) -> Bundle:
    """The bundle of a release's file, without its other files.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        with archive.open("rb") as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            first = tar.next()
            source = None if first is None or first.name != BUNDLE_NAME else tar.extractfile(first)
            if source is None:
                raise ConfigError(f"{archive} is no release: fleet release pack makes one")
            return parse_bundle(source.read(MAX_BUNDLE_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{archive}: {error.strerror}") from None
    except (tarfile.TarError, ValueError, EOFError):
        raise ConfigError(f"{archive} is no release: fleet release pack makes one") from None


def parse_bundle(data: bytes) -> Bundle:
    """A bundle of its bytes, which must be canonical: the same list has one digest.

    Raises:
        ReleaseRefused: it is none.
    """
    try:
        bundle = Bundle.model_validate_json(data)
    except ValidationError:
        raise ReleaseRefused("bundle", f"the {BUNDLE_NAME} cannot be read") from None
    if bundle.canonical_bytes() != data or len(data) > MAX_BUNDLE_BYTES:
        raise ReleaseRefused("bundle", f"the {BUNDLE_NAME} is not in its canonical form")
    return bundle


@contextmanager
def opened(path: Path, into: Path) -> Iterator[Content]:
    """The content of a folder or of a release's file, which is taken out into a folder for the time of the block.

    Raises:
        EdgeRuntimeError: see `content_of` and `unpack_release`.
    """
    if path.is_dir():
        yield content_of(path)
    else:
        yield unpack_release(path, into / "release")


def _plain_files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Every file below a folder, by its path; anything that is no plain file is refused, and nothing followed."""
    if not directory.is_dir() or directory.is_symlink():
        raise ConfigError(f"{directory} is no folder")
    try:
        for base, folders, names in os.walk(directory, followlinks=False):
            for name in sorted([*folders, *names]):
                place = Path(base) / name
                if name in folders and not place.is_symlink():
                    continue
                if why := why_mode_refused(place.lstat().st_mode):
                    raise ReleaseRefused(
                        "executable-content", f"{place} may not be in a release: it is {why}"
                    )
                yield place.relative_to(directory).as_posix(), place
    except OSError as error:
        raise ConfigError(f"{error.filename or directory}: {error.strerror}") from None


def _require_data(path: str, place: Path) -> None:
    with place.open("rb") as stream:
        if why := why_file_refused(path, stream):
            raise ReleaseRefused("executable-content", f"{place} may not be in a release: it is {why}")


def _bundle(kind: ReleaseKind, name: str, files: Mapping[str, Path]) -> Bundle:
    if len(files) > MAX_FILES:
        raise ReleaseRefused("bundle", f"a release has at most {MAX_FILES} files, and this has {len(files)}")
    try:
        return Bundle(
            kind=kind,
            name=name,
            files=tuple(
                BundleFile(path=path, sha256=sha256_file(files[path]), bytes=files[path].stat().st_size)
                for path in sorted(files)
            ),
        )
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=True)[0]
        where = ".".join(str(part) for part in found["loc"])
        raise ConfigError(f"this cannot be a release: {where or 'bundle'}: {found['msg']}") from None


def _add(tar: tarfile.TarFile, name: str, source: BinaryIO) -> None:
    info = tarfile.TarInfo(name)
    info.size = source.seek(0, os.SEEK_END)
    source.seek(0)
    info.mode, info.mtime = 0o644, 0
    tar.addfile(info, source)


def _extract(archive: Path, stream: BinaryIO, staged: Path) -> None:
    """Only what the bundle names, of the length that it says, is written."""
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            first = tar.next()
            head = None if first is None or first.name != BUNDLE_NAME else tar.extractfile(first)
            if head is None:
                raise ConfigError(f"{archive} is no release: fleet release pack makes one")
            awaited = {
                _MEMBERS + file.path: file for file in parse_bundle(head.read(MAX_BUNDLE_BYTES + 1)).files
            }
            while info := tar.next():
                file = awaited.pop(info.name, None)
                source = tar.extractfile(info) if info.isreg() else None
                if file is None or source is None or info.size != file.bytes:
                    raise ReleaseRefused(
                        "damaged", f"{archive} holds {info.name!r}, which its bundle does not name"
                    )
                place = staged / file.path
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("wb") as written:
                    while piece := source.read(_PIECE):
                        written.write(piece)
            if awaited:
                raise ReleaseRefused("damaged", f"{archive} lacks {sorted(awaited)[0]}: it was cut off")
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        if isinstance(error, EdgeRuntimeError):
            raise
        raise ConfigError(f"{archive} is no release: fleet release pack makes one") from None
