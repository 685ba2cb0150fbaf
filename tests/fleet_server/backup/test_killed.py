"""Killed anywhere, a backup or a restored server is there and whole, or it is not there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from fleet_server.backup import restore
from tests.conftest import REPOSITORY
from tests.fleet_server.backup.conftest import Site
from tests.rigs.databases import new_database

EVERY, SOME = pytest.param(1, marks=pytest.mark.trial), 61


def killing(*arguments: object) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fleet_server.backup.killing", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("step", [SOME, EVERY])
def test_a_backup_that_is_killed_is_none(own_site: Site, tmp_path: Path, step: int) -> None:
    found = killing("create", own_site.api.directory, tmp_path / "kept", step)
    assert found["killed"] >= 2


@pytest.mark.parametrize("step", [SOME, EVERY])
def test_a_restore_that_is_killed_can_be_repeated(own_site: Site, tmp_path: Path, step: int) -> None:
    backup, _ = own_site.back_up()
    folder = tmp_path / "restored"
    folder.mkdir()
    found = killing("restore", backup, folder, step)
    assert found["killed"] >= 2
    assert step != 1 or found["whole"] > 0, "a point behind the rename"


class Killed(BaseException):
    """The process is gone."""


def test_a_database_that_was_filled_before_the_directory_got_its_name_is_taken(
    own_site: Site, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, manifest = own_site.back_up()
    url = new_database(request, tmp_path, "postgresql")

    def gone(_folder: Path) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("fleet_server.backup.staging.flush_tree", gone)
        with pytest.raises(Killed):
            restore(backup, tmp_path / "again", {}, database=url)
    assert not (tmp_path / "again").exists()
    found = restore(backup, tmp_path / "again", {}, database=url)
    assert (found.again, found.manifest.id) == (True, manifest.id)
    opened = own_site.opened(found)
    with opened.store.write() as session:
        opened.services.audit(session, "anna", "something.else", "x", {})
    opened.close()
    with pytest.raises(ConfigError, match="the database is not empty"):
        restore(backup, tmp_path / "third", {}, database=url)
