"""Making a backup of a server that goes on meanwhile.

The files that the database names are copied first, then one state of the database, then the files that this state
names and that were not there before: so each of them is in the backup, though retention deletes and devices upload.
"""

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path

from edge_runtime import __version__
from edge_runtime.clock import NS_PER_MS, Clock, SystemClock
from edge_runtime.durable import sha256_file
from edge_runtime.errors import ConfigError
from fleet_server.audit import verify as verify_audit
from fleet_server.authority import CertificateAuthority
from fleet_server.backup.contents import named_files, own_files
from fleet_server.backup.copying import copy_file, disk_problems, link_file, make_folder, require_space
from fleet_server.backup.database import copy_out, read_only, read_rows, revision
from fleet_server.backup.keeping import LOCK, clear, name_for, newest, prune
from fleet_server.backup.manifest import DATABASE, Absent, Manifest, SavedFile, write_manifest
from fleet_server.backup.staging import staged, turn
from fleet_server.paths import ServerPaths
from fleet_server.rollouts.numbers import signed_metadata
from fleet_server.serve.backup_stamp import leave_stamp
from fleet_server.serve.running import running_server
from fleet_server.settings import DATABASE_VARIABLE, ServerSettings
from fleet_server.storage import open_store
from fleet_server.storage.migrate import revisions

_SPARE_BYTES = 64 << 20


def create(
    directory: Path,
    into: Path,
    environment: Mapping[str, str],
    *,
    keep: int | None = None,
    clock: Clock | None = None,
) -> tuple[Path, Manifest]:
    """Make a backup, whether a server runs on the directory or not.

    Args:
        directory: data directory.
        into: folder of backups, made when it is missing; it lies outside the data directory.
        environment: variables that stand above the settings.
        keep: how many backups of this server stay in `into`, the new one included; None for all.
        clock: dates it; the machine's own when None.

    Returns:
        Its folder and what it says of itself.

    Raises:
        ConfigError: no data directory, or `into` lies in it.
        BackupFailed: it could not be made, and `into` is as it was; or it was made, and older ones could not be
            deleted.
    """
    variables = dict(environment)
    paths = ServerPaths(directory.expanduser().absolute())
    running = running_server(paths)
    if running is not None:
        variables[DATABASE_VARIABLE] = running.database  # what the server was started with
    settings = ServerSettings.load(directory, variables)
    target = into.expanduser().absolute()
    if target.resolve().is_relative_to(paths.root.resolve()):
        raise ConfigError(f"{target} lies in the data directory: a backup belongs on another disk")
    busy = f"another backup is made in {target} now"
    used = clock or SystemClock()
    with contextlib.ExitStack() as held:
        with disk_problems(f"no backup was made in {target}"):
            make_folder(target)
            held.enter_context(turn(target / LOCK, busy))
            clear(target)
            now_ms = used.wall().unix_ns // NS_PER_MS
            place, before = target / name_for(target, now_ms), newest(target)
            with staged(place, busy) as part:
                manifest = _fill(part, settings, before, now_ms, used)
        try:
            if keep is not None:
                with disk_problems(f"{place} was made, and older backups could not be deleted"):
                    prune(target, keep, place, manifest.authority)
        finally:
            leave_stamp(paths, manifest.point_ms)
    return place, manifest


def _fill(part: Path, settings: ServerSettings, before: Path | None, now_ms: int, clock: Clock) -> Manifest:
    paths = settings.paths
    store = open_store(settings.database_url)
    try:
        wanted = named_files(paths, store)
        saving = _Saving(paths.root, part)
        if before is not None:
            saving.link_named(wanted, before)
        require_space(part, saving.missing_bytes(wanted) + _database_bytes(paths) + _SPARE_BYTES)
        saving.take_all_named(wanted)
        copy_out(store, part / DATABASE)
        kind = "sqlite" if store.is_sqlite else "postgresql"
    finally:
        store.close()
    with read_only(part / DATABASE) as copied:
        schema = revision(copied)
        if schema != revisions()[0]:
            raise ConfigError(
                f"the database has schema {schema} and this program {revisions()[0]}: start the server "
                "once, or use the program that it was made with"
            )
        wanted, rows = named_files(paths, copied), read_rows(copied)
        with copied.read() as session:
            audit = verify_audit(session)
            metadata = {role: signed.version for role, signed in signed_metadata(session).items()}
    saving.take_all_named(wanted)
    saving.leave(set(wanted))
    for path, secret in own_files(paths):
        saving.take_own(path, secret=secret)
    copy = ServerPaths(part)
    authority = CertificateAuthority.load(copy.ca_key, copy.ca_certificate, clock)
    manifest = Manifest(
        id=secrets.token_hex(8),
        point_ms=now_ms,
        authority=authority.fingerprint,
        runtime=__version__,
        revision=schema,
        database="sqlite" if kind == "sqlite" else "postgresql",
        rows=rows,
        audit_entries=audit.entries,
        audit_head=audit.head,
        audit_broken_at=audit.broken_at,
        metadata=metadata,
        files=(_saved(part / DATABASE), *saving.saved()),
        absent=tuple(saving.absent),
    )
    write_manifest(part, manifest)
    return manifest


class _Saving:
    """Files on their way from a data directory into a backup.

    Args:
        root: the data directory.
        part: the backup's folder.

    Attributes:
        absent: what is named and was not there, or not whole.
    """

    def __init__(self, root: Path, part: Path) -> None:
        self._root, self._part = root, part
        self._saved: dict[Path, SavedFile] = {}
        self.absent: list[Absent] = []

    def link_named(self, wanted: Mapping[Path, str], before: Path) -> None:
        """Link the files that an earlier backup has, and has whole: they never change."""
        for path, digest in wanted.items():
            place = self._place(path)
            if link_file(before / self._name(path), place, digest):
                self._saved[path] = SavedFile(
                    path=self._name(path), bytes=place.stat().st_size, sha256=digest
                )

    def missing_bytes(self, wanted: Mapping[Path, str]) -> int:
        """Bytes that have to be copied yet."""
        return sum(path.stat().st_size for path in wanted if path not in self._saved and path.is_file())

    def take_all_named(self, wanted: Mapping[Path, str]) -> None:
        """Have the files that are named by their digests; each once."""
        for path, digest in wanted.items():
            self._take_named(path, digest)

    def _take_named(self, path: Path, digest: str) -> None:
        if path in self._saved or any(one.path == self._name(path) for one in self.absent):
            return
        place = self._place(path)
        try:
            length, found = copy_file(path, place)
        except FileNotFoundError:
            self.absent.append(Absent(path=self._name(path), reason="it is not there"))
            return
        if found != digest:
            place.unlink()
            self.absent.append(Absent(path=self._name(path), reason="its bytes are not those of its name"))
            return
        self._saved[path] = SavedFile(path=self._name(path), bytes=length, sha256=digest)

    def take_own(self, path: Path, *, secret: bool) -> None:
        """Have a file of the directory itself."""
        length, digest = copy_file(path, self._place(path))
        self._saved[path] = SavedFile(path=self._name(path), bytes=length, sha256=digest, secret=secret)

    def leave(self, wanted: set[Path]) -> None:
        """Take out again what the state of the database does not name: retention was faster."""
        for path in [path for path in self._saved if path not in wanted]:
            self._place(path).unlink()
            del self._saved[path]
        names = {self._name(path) for path in wanted}
        self.absent = [one for one in self.absent if one.path in names]

    def saved(self) -> list[SavedFile]:
        """All that is in the backup, in the order of their names."""
        return sorted(self._saved.values(), key=lambda file: file.path)

    def _place(self, path: Path) -> Path:
        return self._part / self._name(path)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _saved(path: Path) -> SavedFile:
    return SavedFile(path=path.name, bytes=path.stat().st_size, sha256=sha256_file(path), secret=True)


def _database_bytes(paths: ServerPaths) -> int:
    """About the room that the copy needs; of another server's database nothing is known."""
    files = (paths.database, paths.database.with_name(paths.database.name + "-wal"))
    return sum(path.stat().st_size for path in files if path.is_file())
