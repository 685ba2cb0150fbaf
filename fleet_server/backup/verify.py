"""Reading a backup again, all of it: its bytes, its database, its audit, its keys and what its metadata names."""

from pathlib import Path

from sqlalchemy.orm import Session

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.durable import sha256_file
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.audit import verify as verify_audit
from fleet_server.authority import CertificateAuthority
from fleet_server.backup.contents import named_files
from fleet_server.backup.database import faults, read_only, read_rows, revision
from fleet_server.backup.manifest import (
    DATABASE,
    NAME,
    PRIVATE,
    PRIVATE_FOLDER,
    Manifest,
    SavedFile,
    read_manifest,
)
from fleet_server.backup.problems import BackupDamaged
from fleet_server.paths import ServerPaths
from fleet_server.releases import shelf
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.repository import vouch
from fleet_server.releases.roles import DIRECTOR, RELEASE_ROLES, ROOT, SNAPSHOT, TARGETS, TIMESTAMP
from fleet_server.rollouts.numbers import signed_metadata
from fleet_server.storage.migrate import revisions


def verify(folder: Path, clock: Clock | None = None) -> Manifest:
    """Read a backup and hold it against its manifest.

    Args:
        folder: of one backup.
        clock: for the authority's certificate; the machine's own when None.

    Returns:
        Its manifest, every word of which was found true.

    Raises:
        ConfigError: it is no backup, or one of a newer release.
        BackupDamaged: something in it is missing, changed, added, or readable by others.
    """
    place = folder.expanduser().absolute()
    manifest = read_manifest(place)
    if manifest.revision not in revisions():
        raise ConfigError(
            f"{place} has schema {manifest.revision} of a newer release: verify and restore it with that one"
        )
    try:
        _require_files(place, manifest)
        _require_database(place, manifest)
        paths = ServerPaths(place)
        authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, clock or SystemClock())
        if authority.fingerprint != manifest.authority:
            raise BackupDamaged("the authority is another than its manifest says")
    except OSError as error:
        raise BackupDamaged(f"{place} cannot be read: {error.strerror} ({error.filename})") from None
    except BackupDamaged:
        raise
    except EdgeRuntimeError as error:
        raise BackupDamaged(f"{place}: {error}") from None
    return manifest


def _require_files(place: Path, manifest: Manifest) -> None:
    expected = {file.path: file for file in manifest.files}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_symlink():
            raise BackupDamaged(f"{name} is a link: a backup has none")
        if path.is_file() and name != NAME and name not in expected:
            raise BackupDamaged(f"{name} was added after the backup was made")
    for path in [place, *sorted(place.rglob("*"))]:
        _require_private(place, path)
    for file in manifest.files:
        _require_file(place / file.path, file)


def _require_file(path: Path, file: SavedFile) -> None:
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        raise BackupDamaged(f"{file.path} is missing") from None
    if found.st_size != file.bytes or sha256_file(path) != file.sha256:
        raise BackupDamaged(f"{file.path} is not what was saved: its bytes are others")


def _require_private(place: Path, path: Path) -> None:
    """Whoever may write a folder can exchange what is in it, and every file says something of the fleet."""
    mode = path.stat(follow_symlinks=False).st_mode
    if mode & 0o077:
        name = "the folder" if path == place else path.relative_to(place).as_posix()
        wanted = PRIVATE_FOLDER if path.is_dir() else PRIVATE
        raise BackupDamaged(
            f"{name} can be reached by others: it may be known to them, and its mode must be {wanted:o}"
        )


def _require_database(place: Path, manifest: Manifest) -> None:
    source = place / DATABASE
    if wrong := faults(source):
        raise BackupDamaged(f"{DATABASE} is damaged: {wrong}")
    with read_only(source) as store:
        if revision(store) != manifest.revision:
            raise BackupDamaged(f"{DATABASE} has another schema than its manifest says")
        with store.read() as session:
            _require_audit(session, manifest)
        if manifest.revision != revisions()[0]:
            return  # its other tables can be read once it is brought up to date, which is done with a copy
        if read_rows(store) != manifest.rows:
            raise BackupDamaged(f"{DATABASE} has other rows than its manifest says")
        _require_named(place, manifest, set(named_files(ServerPaths(place), store)))
        with store.read() as session:
            _require_releases(session, place, manifest)


def _require_named(place: Path, manifest: Manifest, wanted: set[Path]) -> None:
    known = {file.path for file in manifest.files} | {one.path for one in manifest.absent}
    for path in sorted(wanted):
        name = path.relative_to(place).as_posix()
        if name not in known:
            raise BackupDamaged(f"the database names {name}, and it was not saved")


def _require_audit(session: Session, manifest: Manifest) -> None:
    found = verify_audit(session)
    said = (manifest.audit_entries, manifest.audit_head, manifest.audit_broken_at)
    if (found.entries, found.head, found.broken_at) != said:
        raise BackupDamaged("the audit does not end where its manifest says")


def _require_releases(session: Session, place: Path, manifest: Manifest) -> None:
    versions = {role: signed.version for role, signed in signed_metadata(session).items()}
    if versions != manifest.metadata:
        raise BackupDamaged("the signed metadata has other versions than its manifest says")
    if not versions:
        return
    trusted = shelf.published(session)
    if trusted is None:
        raise BackupDamaged("the signed metadata has no root")
    for role in (ROOT, TARGETS):
        vouch(trusted.root, role, trusted.document(role))
    for role in RELEASE_ROLES:
        vouch(trusted.targets, role, trusted.document(role))
    keys = OnlineKeys(ServerPaths(place))
    for role in (SNAPSHOT, TIMESTAMP, DIRECTOR):
        keys.signer(role, trusted.keyids(role))
