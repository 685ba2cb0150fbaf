"""`fleet backup`: copies of a server, and a server out of a copy."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.errors import ConfigError
from fleet_server.cli.output import clean, say, size, when, write, write_json, write_table
from fleet_server.cli.serve import PASSWORD
from fleet_server.cli.target import Data, Json, data_directory

if TYPE_CHECKING:
    from fleet_server.backup import Manifest, Restored

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Back up a server, verify a backup, and restore it."
)

_DATABASES = {"sqlite": "a file of SQLite", "postgresql": "PostgreSQL"}
_Backup = Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder of one backup.", show_default=False)]


@app.command()
def create(
    into: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder of backups, best on another disk.", show_default=False),
    ],
    data: Data = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            min=1,
            metavar="COUNT",
            help="Delete all but so many of this server afterwards; all stay without.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Back up a server on this machine, whether it runs or not, into a new folder below FOLDER.

    Database and files are of one moment. The backup holds the authority's key and is not encrypted: whoever can
    read it can become the server.
    """
    from fleet_server.backup import create as make

    place, manifest = make(data_directory(data), into, os.environ, keep=keep)
    if json:
        write_json(_shown(place, manifest))
    else:
        write(str(place))
        say(
            f"  {manifest.rows['events']} events, {len(manifest.files)} files, {size(manifest.bytes)}, "
            f"as of {when(manifest.point_ms)} UTC"
        )
        say(f"  it holds secrets: {', '.join(manifest.secrets)}")
    _say_what_is_wrong(manifest)


@app.command(name="list")
def list_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of backups.", show_default=False)],
    json: Json = False,
) -> None:
    """List the backups in a folder, the oldest first. Nothing of them is verified."""
    from fleet_server.backup import backups_in

    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder")
    found = backups_in(folder)
    if json:
        write_json([_shown(path, manifest) for path, manifest in found])
        return
    write_table(
        ("backup!", "as of (UTC)!", "#events!", "#size!", "made on", "of"),
        (
            (path.name, None, None, None, None, "its manifest is damaged")
            if one is None
            else (
                path.name,
                when(one.point_ms),
                one.rows["events"],
                size(one.bytes),
                one.database,
                one.runtime,
            )
            for path, one in found
        ),
        "no backup there",
    )


@app.command()
def verify(backup: _Backup, json: Json = False) -> None:
    """Read a backup again, all of it: bytes, modes, database, audit, keys and signed metadata."""
    from fleet_server.backup import verify as check

    manifest = check(backup)
    if json:
        write_json(_shown(backup, manifest))
    else:
        write(
            f"whole: {len(manifest.files)} files, {manifest.rows['events']} events, "
            f"{manifest.audit_entries} acts, as of {when(manifest.point_ms)} UTC"
        )
    _say_what_is_wrong(manifest)


@app.command()
def restore(
    backup: _Backup,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="New data directory: missing or empty.", show_default=False)
    ],
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="An empty database instead of the one in the settings; file for one in DIR. "
            "Give one with a password as FLEET_DATABASE.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a data directory out of a backup. The old server must not run any more.

    Signed metadata and assignments go on above what devices may have seen, rollouts that ran are paused,
    invitations are void, and desired states are published again.
    """
    from fleet_server.backup import restore as put_back

    if database is not None and PASSWORD.search(database):
        raise ConfigError("every user of this machine reads a command line: give it as FLEET_DATABASE")
    found = put_back(backup, directory, os.environ, database=database)
    if json:
        write_json(_answer(found))
        return
    write(
        f"{found.directory} is restored, as of {when(found.manifest.point_ms)} UTC, "
        f"on {_DATABASES[found.database]}"
    )
    if found.again:
        say("  the database was filled by an earlier try, and nothing was done with it since")
    if found.gone_on.versions:
        shown = ", ".join(f"{role} {version}" for role, version in found.gone_on.versions.items())
        say(f"  signed metadata goes on with {shown}")
    if found.gone_on.paused:
        say(f"  paused: {', '.join(found.gone_on.paused)}; people decide how they go on")
    if found.gone_on.rolling_back:
        say(f"  rolling back still: {', '.join(found.gone_on.rolling_back)}; nobody can pause that")
    if found.gone_on.invitations_void:
        say(
            f"  invitations that are void now, for they may have been used since: {found.gone_on.invitations_void}"
        )
    say("  what was done since is unknown: docs/backup.md says what to look at")
    say(f"  fleet serve --data {found.directory}")


def _shown(place: Path, manifest: "Manifest | None") -> dict[str, object]:
    if manifest is None:
        return {"backup": str(place), "id": None}
    return {
        "backup": str(place),
        **manifest.model_dump(mode="json", exclude={"files", "format"}),
        "files": len(manifest.files),
        "bytes": manifest.bytes,
        "secrets": manifest.secrets,
    }


def _answer(found: "Restored") -> dict[str, object]:
    return {
        "directory": str(found.directory),
        "backup": found.manifest.id,
        "point_ms": found.manifest.point_ms,
        "database": found.database,
        "filled_before": found.again,
        "versions": found.gone_on.versions,
        "paused": list(found.gone_on.paused),
        "rolling_back": list(found.gone_on.rolling_back),
        "invitations_void": found.gone_on.invitations_void,
        "published_again": found.gone_on.published_again,
    }


def _say_what_is_wrong(manifest: "Manifest") -> None:
    if manifest.audit_broken_at is not None:
        say(f"WARNING: the server's audit is broken at entry {manifest.audit_broken_at}: fleet audit verify")
    for one in manifest.absent[:10]:
        say(f"WARNING: {clean(one.path)} is named by the database and not in the backup: {one.reason}")
    if len(manifest.absent) > 10:
        say(f"WARNING: and {len(manifest.absent) - 10} more")
