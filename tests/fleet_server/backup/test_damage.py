"""Whatever is changed in a backup is found, is named, and keeps it from being restored."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.backup import BackupDamaged, restore, verify
from fleet_server.backup.manifest import NAME, read_manifest, write_manifest
from tests.fleet_server.backup.conftest import made_site


@pytest.fixture(scope="module")
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup that its users copy."""
    for site in made_site(request, tmp_path_factory.mktemp("whole"), "sqlite"):
        return site.back_up()[0]
    raise AssertionError


@pytest.fixture
def backup(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(whole, tmp_path / "backup")
    return tmp_path / "backup"


def _flip(name: str) -> Callable[[Path], None]:
    def damage(backup: Path) -> None:
        path = backup / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))

    return damage


def _more_events(backup: Path) -> None:
    path = backup / NAME
    found = json.loads(path.read_text())
    found["rows"]["events"] += 1
    path.write_text(json.dumps(found))


def _evidence(backup: Path) -> Path:
    return next(path for path in (backup / "evidence").rglob("*") if path.is_file())


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of the database": (_flip("fleet.db"), "fleet.db is not what was saved"),
    "a bit of a key": (_flip("authority/ca.key"), "authority/ca.key is not what was saved"),
    "a number in the manifest": (_more_events, "manifest.json is damaged"),
    "half a manifest": (lambda backup: os.truncate(backup / NAME, 100), "manifest.json is damaged"),
    "a token that is gone": (lambda backup: (backup / "admin.token").unlink(), "admin.token is missing"),
    "a file more": (lambda backup: (backup / "tls/x.key").write_text("x"), "tls/x.key was added"),
    "a key for all": (
        lambda backup: (backup / "authority/ca.key").chmod(0o644),
        "authority/ca.key can be reached",
    ),
    "a certificate for all": (
        lambda backup: (backup / "authority/ca.pem").chmod(0o604),
        "its mode must be 600",
    ),
    "evidence for the group": (lambda backup: _evidence(backup).chmod(0o640), "evidence/.* can be reached"),
    "a manifest for all": (lambda backup: (backup / NAME).chmod(0o644), "manifest.json can be reached"),
    "a folder for the group": (lambda backup: backup.chmod(0o750), "the folder can be reached"),
    "a folder in it": (lambda backup: (backup / "tls").chmod(0o711), "tls can be reached .* must be 700"),
    "a link": (lambda backup: (backup / "evidence/y").symlink_to("/etc/passwd"), "evidence/y is a link"),
    "no manifest": (lambda backup: (backup / NAME).unlink(), "is no backup"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_nothing_is_restored(backup: Path, tmp_path: Path, name: str) -> None:
    act, said = DAMAGE[name]
    act(backup)
    for attempt in (lambda: verify(backup), lambda: restore(backup, tmp_path / "data", {}, database="file")):
        with pytest.raises(EdgeRuntimeError, match=said):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def test_a_manifest_that_was_written_anew_is_held_against_the_rest(backup: Path) -> None:
    manifest = read_manifest(backup)
    lies: dict[str, object] = {
        "rows": {**manifest.rows, "events": 99},
        "audit_head": "0" * 64,
        "metadata": {**manifest.metadata, "models": 7},
        "revision": "0003",
        "authority": "0" * 64,
        "files": tuple(file for file in manifest.files if not file.path.startswith("evidence/")),
    }
    for field, lie in lies.items():
        write_manifest(backup, manifest.model_copy(update={field: lie}))
        with pytest.raises(BackupDamaged):
            verify(backup)
    write_manifest(backup, manifest.model_copy(update={"revision": "9999"}))
    with pytest.raises(ConfigError, match="newer release"):
        verify(backup)
    outside = manifest.files[0].model_copy(update={"path": "evidence/../../x"})
    write_manifest(backup, manifest.model_copy(update={"files": (*manifest.files, outside)}))
    with pytest.raises(ConfigError):
        verify(backup)
    write_manifest(backup, manifest)
    verify(backup)
