"""A new data directory out of a backup, made beside its place and moved there whole.

Everything is done with a copy of the database in the new directory. Where the server runs on PostgreSQL that copy
goes over in one transaction, just before the directory gets its name: killed in between, the next try finds what it
put there, by the audit, and goes on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.engine import make_url

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.authority.files import write_whole
from fleet_server.backup.copying import copy_file, disk_problems, make_folder, require_space
from fleet_server.backup.database import (
    copy_in,
    finish_copy,
    is_empty,
    opened_copy,
    prepared,
    upgrade_copy,
)
from fleet_server.backup.going_on import ACTOR, GoneOn, go_on
from fleet_server.backup.manifest import DATABASE, PRIVATE, Manifest
from fleet_server.backup.problems import BackupDamaged
from fleet_server.backup.staging import staged
from fleet_server.backup.verify import verify
from fleet_server.init import quoted
from fleet_server.paths import ServerPaths
from fleet_server.settings import DATABASE_VARIABLE, ServerSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.operator_tables import AuditRow

_SPARE_BYTES = 64 << 20
_DATABASE_LINE = re.compile(r"^database[ \t]*=.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Restored:
    """A data directory that was made.

    Attributes:
        database: its kind, `sqlite` or `postgresql`.
        gone_on: what was done so that devices can go on.
        again: whether an earlier try had filled the database already.
    """

    directory: Path
    manifest: Manifest
    database: str
    gone_on: GoneOn
    again: bool = False


def restore(
    backup: Path,
    directory: Path,
    environment: Mapping[str, str],
    *,
    database: str | None = None,
    clock: Clock | None = None,
) -> Restored:
    """Make a data directory out of a backup.

    Args:
        backup: folder of one backup; it is only read.
        directory: missing or empty.
        environment: variables that stand above the settings: FLEET_DATABASE among them.
        database: URL that is written into the settings instead of the one there; `file` for one in the directory.
        clock: of the machine; its own when None.

    Raises:
        ConfigError: no backup, one of a newer release, a directory or a database that is not empty, or a server on
            PostgreSQL for which nothing names a database now.
        BackupDamaged: the backup is not what it was.
        BackupFailed: the disk or the database refuses; the directory is as it was.
    """
    used = clock or SystemClock()
    target = directory.expanduser().absolute()
    source = backup.expanduser().absolute()
    _require_empty(target)

    def settings(paths: ServerPaths) -> ServerSettings:
        return _settings(paths, environment, database)

    manifest = verify(source, used)
    if database is None:
        _require_kind(ServerSettings.load(source, _named_database(environment)), manifest)
    busy = f"another restore into {target} runs"
    with disk_problems(f"{target} was not restored"), staged(target, busy) as part:
        require_space(part, 2 * manifest.bytes + _SPARE_BYTES)
        found = _fill(part, source, manifest, settings, used)
    return Restored(target, manifest, *found)


def _fill(
    part: Path,
    source: Path,
    manifest: Manifest,
    settings: Callable[[ServerPaths], ServerSettings],
    clock: Clock,
) -> tuple[str, GoneOn, bool]:
    for file in manifest.files:
        if copy_file(source / file.path, part / file.path)[1] != file.sha256:
            raise BackupDamaged(f"{file.path} changed while it was read")
    paths = ServerPaths(part)
    for public in (paths.ca_certificate, paths.server_certificate, paths.ingest_certificate):
        if public.is_file():
            public.chmod(0o644)
    for folder in (paths.broker, paths.evidence, paths.run, paths.tls):
        make_folder(folder)
    known = settings(paths)
    staging = part / DATABASE
    upgrade_copy(staging)
    with opened_copy(staging) as store:
        gone_on = go_on(store, paths, known, manifest, clock)
    finish_copy(staging)
    again = False
    kind = "sqlite"
    if known.database_url != f"sqlite:///{staging}":
        kind, again = "postgresql", _move(staging, known.database_url, manifest)
        staging.unlink()
    return kind, gone_on, again


def _move(staging: Path, url: str, manifest: Manifest) -> bool:
    """Fill the server's own database; whether an earlier try had done it."""
    if make_url(url).get_backend_name() == "sqlite":
        raise ConfigError(
            "the settings name a file of SQLite elsewhere: --database file has it in the data directory"
        )
    store = prepared(url)
    try:
        if not is_empty(store):
            if _holds(store, manifest):
                return True
            raise ConfigError(
                "the database is not empty: make a new one, and name it with --database or FLEET_DATABASE"
            )
    finally:
        store.close()
    copy_in(staging, url)
    return False


def _holds(store: Store, manifest: Manifest) -> bool:
    """Whether a database is this backup as it was restored, and nothing was done with it since."""
    with store.read() as session:
        last = session.scalar(select(AuditRow).order_by(AuditRow.id.desc()).limit(1))
        return last is not None and (last.actor, last.action, last.subject) == (
            ACTOR,
            "server.restored",
            manifest.id,
        )


def _named_database(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name == DATABASE_VARIABLE}


def _require_kind(settings: ServerSettings, manifest: Manifest) -> None:
    """A server whose URL stood in its environment alone would become one on a file, and nobody would notice."""
    kind = make_url(settings.database_url).get_backend_name()
    if manifest.database == "postgresql" and kind == "sqlite":
        raise ConfigError(
            "the server ran on PostgreSQL and nothing names one now: give its URL as FLEET_DATABASE, or "
            "--database file for a file in the directory"
        )


def _settings(paths: ServerPaths, environment: Mapping[str, str], database: str | None) -> ServerSettings:
    variables = _named_database(environment)
    if database is not None:
        variables = {}
        text = paths.settings.read_text(encoding="utf-8")
        line = "" if database == "file" else f"database = {quoted(database)}"
        changed = _DATABASE_LINE.sub("", text)
        if line:
            changed = re.sub(
                r"^(version\s*=.*)$", rf"\1\n{_literal(line)}", changed, count=1, flags=re.MULTILINE
            )
        write_whole(paths.settings, changed.encode(), PRIVATE)
    settings = ServerSettings.load(paths.root, variables)
    if database is not None and settings.database != (None if database == "file" else database):
        raise ConfigError(
            "settings.toml is written in a way that --database cannot change: give the URL as FLEET_DATABASE"
        )
    return settings


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\")


def _require_empty(target: Path) -> None:
    try:
        found = next(target.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{target}: {error.strerror}") from None
    if found is not None:
        raise ConfigError(f"{target} is not empty: a backup is restored into a new or an empty directory")
