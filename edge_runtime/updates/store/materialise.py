"""A release's folder: its list of files, its terms, and its files as hard links to blobs; whole or absent."""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.durable import sha256_file, staged_directory, write_file
from edge_runtime.protocol.release import MAX_BUNDLE_BYTES, Bundle, ReleaseTerms
from edge_runtime.updates.store.places import Places

_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_MAX_TERMS_BYTES = 1 << 20


def materialise(places: Places, sha256: str, bundle: Bundle, terms: ReleaseTerms) -> None:
    """Make the release's folder, or make it anew; a file system without hard links gets copies.

    Raises:
        OSError: it cannot be written, and what was there stays.
    """
    with staged_directory(places.release(sha256)) as staged:
        files = staged / "files"
        files.mkdir(mode=0o755)
        for file in bundle.files:
            target = files / file.path
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _link(places.blob(file.sha256), target)
        write_file(staged / places.bundle(sha256).name, bundle.canonical_bytes(), 0o444)
        write_file(staged / places.terms(sha256).name, terms.canonical_bytes(), 0o444)


def is_materialised(places: Places, sha256: str, bundle: Bundle) -> bool:
    """Whether the folder is there with every file of the list and no other, each a blob or a copy of one."""
    folder = places.files(sha256)
    try:
        here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not _is_folder(path)}
        return (
            here == {file.path for file in bundle.files}
            and read_bundle(places, sha256) == bundle
            and all(
                _is(places.files(sha256) / file.path, places.blob(file.sha256), file.sha256)
                for file in bundle.files
            )
        )
    except OSError:
        return False


def read_bundle(places: Places, sha256: str) -> Bundle | None:
    """The list of a release's files; None where it is not here or cannot be read."""
    try:
        with places.bundle(sha256).open("rb") as file:
            return Bundle.model_validate_json(file.read(MAX_BUNDLE_BYTES + 1))
    except (OSError, ValidationError):
        return None


def read_fetched_bundle(places: Places, sha256: str) -> Bundle | None:
    """The list of files of a release that is on its way; None where it has not come, or is damaged."""
    try:
        with places.blob(sha256).open("rb") as file:
            text = file.read(MAX_BUNDLE_BYTES + 1)
        return Bundle.model_validate_json(text) if hashlib.sha256(text).hexdigest() == sha256 else None
    except (OSError, ValidationError):
        return None


def read_terms(places: Places, sha256: str) -> ReleaseTerms | None:
    """The terms that are kept with a release; None where it is not here or they cannot be read."""
    try:
        with places.terms(sha256).open("rb") as file:
            return ReleaseTerms.model_validate_json(file.read(_MAX_TERMS_BYTES))
    except (OSError, ValidationError):
        return None


def has_links(folder: Path) -> bool:
    """Whether files of a folder can have two names; where not, a release needs its space twice."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".links.") as place:
        first = Path(place) / "first"
        first.touch()
        try:
            (Path(place) / "second").hardlink_to(first)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
    return True


def _is(file: Path, blob: Path, sha256: str) -> bool:
    if not stat.S_ISREG(file.lstat().st_mode):
        return False
    return file.samefile(blob) or sha256_file(file) == sha256


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _link(blob: Path, target: Path) -> None:
    try:
        target.hardlink_to(blob)
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    with blob.open("rb") as source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
        copy.flush()
        os.fchmod(copy.fileno(), 0o444)
        os.fsync(copy.fileno())
