"""What a backup says of itself: `manifest.json`, written last, so that a folder without it is no backup.

The seal at its end finds damage, not malice: whoever can write a backup holds the authority's key anyway.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError
from fleet_server.backup.problems import BackupDamaged

NAME = "manifest.json"
DATABASE = "fleet.db"
"""The copy of the database, always a file of SQLite: one form to verify, whatever the server runs on."""

PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
_MAX_BYTES = 1 << 30

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _stays_inside(path: str) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("a path of a backup leads to its own folder")
    return path


RelativePath = Annotated[
    str, Field(max_length=300, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"), AfterValidator(_stays_inside)
]
Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SavedFile(_Record):
    """One file, by its place in the data directory.

    Attributes:
        secret: whoever reads it can become the server, or part of it.
    """

    path: RelativePath
    bytes: Count
    sha256: Sha256
    secret: bool = False


class Absent(_Record):
    """A file that the database names and the server does not have, or has damaged."""

    path: RelativePath
    reason: Annotated[str, Field(max_length=100)]


class Manifest(_Record):
    """One backup.

    Attributes:
        id: random; the audit of a restored server names it.
        point_ms: the moment of which the database is, by the server's wall clock; the files are those it names.
        authority: fingerprint of the server's certificate authority: whose backup it is.
        runtime: version of the program that made it.
        revision: of the database's schema.
        database: what the server ran on, `sqlite` or `postgresql`.
        rows: of each table.
        audit_entries, audit_head: of the audit's chain, up to the first entry that does not fit.
        audit_broken_at: id of that entry; None for a chain that is whole.
        metadata: version of each role's signed metadata.
        files: all of them, this one excepted.
        absent: what was not there to be saved.
    """

    format: Literal["fleet-backup.v1"] = "fleet-backup.v1"
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    point_ms: Count
    authority: Sha256
    runtime: Annotated[str, Field(max_length=64)]
    revision: Annotated[str, Field(max_length=64)]
    database: Literal["sqlite", "postgresql"]
    rows: dict[str, Count]
    audit_entries: Count
    audit_head: Sha256
    audit_broken_at: int | None = None
    metadata: dict[str, Count]
    files: tuple[SavedFile, ...]
    absent: tuple[Absent, ...] = ()

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def secrets(self) -> list[str]:
        """Paths of the files that hold keys, tokens or passwords."""
        return [file.path for file in self.files if file.secret]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a folder a backup.

    Raises:
        OSError: it cannot be written.
    """
    content = manifest.model_dump(mode="json")
    text = json.dumps({**content, "seal": _seal(content)}, indent=1)
    write_file(folder / NAME, text.encode(), PRIVATE)


def read_manifest(folder: Path) -> Manifest:
    """What a backup says of itself.

    Raises:
        ConfigError: it is no backup, or one of a newer release.
        BackupDamaged: its manifest is not what was written.
    """
    path = folder / NAME
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(_MAX_BYTES))
    except FileNotFoundError:
        raise ConfigError(f"{folder} is no backup: it has no {NAME}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BackupDamaged(f"{path} is damaged: take another backup") from None
    if not isinstance(found, dict):
        raise BackupDamaged(f"{path} is damaged: take another backup")
    seal = found.pop("seal", None)
    if seal != _seal(found):
        raise BackupDamaged(f"{path} is damaged: take another backup")
    if found.get("format") != "fleet-backup.v1":
        raise ConfigError(f"{folder} is a backup of another release: restore it with that one")
    try:
        return Manifest.model_validate_json(json.dumps(found))
    except ValidationError:
        raise ConfigError(f"{folder} is a backup of another release: restore it with that one") from None


def _seal(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
