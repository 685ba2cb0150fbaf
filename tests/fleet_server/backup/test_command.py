"""`fleet backup` as a person meets it: what it prints, and what it leaves with."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fleet_server.backup.manifest import NAME
from fleet_server.cli.main import run
from tests.fleet_server.backup.conftest import Site, tables


class Command:
    """The command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        code = run(["backup", *map(str, arguments)])
        self.out, self.err = self._capsys.readouterr()
        assert "Traceback" not in self.err
        return code

    def json(self, *arguments: object) -> Any:
        assert self(*arguments, "--json") == 0, self.err
        return json.loads(self.out)


def test_a_backup_is_made_listed_verified_and_restored(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    command, folder = Command(capsys), tmp_path / "backups"
    assert command("create", folder, "--data", site.api.directory) == 0
    (backup,) = folder.glob("fleet-*")
    assert command.out == f"{backup}\n"
    count = len(tables(site.api.application.settings.database_url)["events"])
    assert f"{count} events" in command.err
    assert "it holds secrets: admin.token, authority/ca.key" in command.err.replace("fleet.db, ", "")
    assert command("list", folder) == 0
    assert backup.name in command.out
    shown = command.json("verify", backup)
    assert (shown["rows"]["events"], shown["absent"], shown["audit_broken_at"]) == (count, [], None)
    assert command("verify", backup) == 0
    assert command.out.startswith("whole: ")
    target = tmp_path / "again"
    database = site.empty()
    restored = command.json("restore", backup, target, "--database", database)
    assert (restored["directory"], restored["paused"]) == (str(target), [])
    assert set(restored["versions"]) == {"snapshot", "timestamp"}
    assert (restored["rolling_back"], restored["invitations_void"]) == ([], 0)
    assert command("restore", backup, tmp_path / "file", "--database", "file") == 0
    assert " UTC, on a file of SQLite\n" in command.out, "it is said whatever it was before"

    assert command("restore", backup, target, "--database", "file") == 2
    assert (
        command.err
        == f"error: {target} is not empty: a backup is restored into a new or an empty directory\n"
    )
    assert command("restore", backup, tmp_path / "b", "--database", "postgresql://a:secret@h/d") == 2
    assert "secret" not in command.err
    assert command("create", folder) == 2
    assert command("list", tmp_path / "nothing") == 2
    assert command("verify", tmp_path) == 2
    (backup / NAME).write_text("{}")
    assert command("verify", backup) == 1
    assert command("list", folder) == 0
    assert "its manifest is damaged" in command.out
    assert [one["id"] for one in command.json("list", folder)] == [None]
