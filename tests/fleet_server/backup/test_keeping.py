"""A folder of backups that holds more than ours: names, what is deleted, and what never is."""

from pathlib import Path

import pytest

from fleet_server.backup import BackupFailed, backups_in
from fleet_server.backup.keeping import clear, name_for, newest, prune
from fleet_server.backup.manifest import NAME, Manifest, write_manifest
from fleet_server.backup.staging import staged

OURS, OTHERS = "a" * 64, "b" * 64
NOW_MS = 1_796_000_000_500  # 2026-11-30T00:53:20.5Z
NAMES = [f"fleet-2026113{day}T000000Z" for day in range(4)]


def kept(folder: Path, name: str, authority: str = OURS) -> Path:
    """A backup as far as its folder goes."""
    place = folder / name
    place.mkdir()
    manifest = Manifest(
        id="0" * 16,
        point_ms=0,
        authority=authority,
        runtime="0",
        revision="0",
        database="sqlite",
        rows={},
        audit_entries=0,
        audit_head="0" * 64,
        metadata={},
        files=(),
    )
    write_manifest(place, manifest)
    return place


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ([], "fleet-20261130T005320Z"),
        (["fleet-20261130T005319Z"], "fleet-20261130T005320Z"),
        (["fleet-20261130T005320Z"], "fleet-20261130T005321Z"),
        (["fleet-20261130T005320Z-002", "fleet-20200101T000000Z"], "fleet-20261130T005321Z"),
        (["fleet-20991231T235959Z"], "fleet-21000101T000000Z"),
        (["fleet-20991399T000000Z", "fleet-later", "fleet-20990101T000000Z.old"], "fleet-20261130T005320Z"),
    ],
)
def test_a_name_follows_all_that_are_there(tmp_path: Path, there: list[str], name: str) -> None:
    """Also those that a clock which was ahead had named: the newest by name is the newest made."""
    for other in there:
        (tmp_path / other).mkdir()
    assert name_for(tmp_path, NOW_MS) == name


def test_behind_the_last_name_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "fleet-99991231T235959Z").mkdir()
    with pytest.raises(BackupFailed, match="take it away"):
        name_for(tmp_path, NOW_MS)


@pytest.mark.parametrize("keep", [1, 2, 3, 9])
def test_only_older_backups_of_the_same_server_go(tmp_path: Path, keep: int) -> None:
    """Whatever they are dated, and whoever else keeps something in the folder."""
    ours = [kept(tmp_path, name).name for name in (*NAMES[:3], "fleet-20990101T000000Z")]
    made = kept(tmp_path, NAMES[3])
    foreign = kept(tmp_path, "fleet-20200101T000000Z", OTHERS)
    damaged = kept(tmp_path, "fleet-20200102T000000Z")
    (damaged / NAME).write_text("{}")
    strange = [kept(tmp_path, name) for name in ("fleet-notes", "fleet-20200103T000000Z.old", "photos")]
    gone = prune(tmp_path, keep, made, OURS)
    stays = ours[max(0, len(ours) - keep + 1) :]
    assert left(tmp_path) == {*stays, *(path.name for path in (made, foreign, damaged, *strange))}
    assert [path.name for path in gone] == ours[: len(ours) - len(stays)]


def test_what_is_not_named_like_a_backup_is_neither_listed_nor_linked_from(tmp_path: Path) -> None:
    ours = kept(tmp_path, NAMES[0])
    kept(tmp_path, "fleet-zzz")
    assert [path for path, _ in backups_in(tmp_path)] == [ours]
    assert newest(tmp_path) == ours


def test_leftovers_go_and_strangers_stay(tmp_path: Path) -> None:
    strange = {".old-photos", ".old-fleet-2025", ".fleet-notes.part", ".fleet-20260101T000000Z.partial"}
    ours = {f".old-{NAMES[0]}", f".{NAMES[1]}.part", f".{NAMES[2]}-002.part"}
    for name in strange | ours:
        (tmp_path / name / "below").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f".old-{NAMES[3]}").symlink_to(elsewhere)
    clear(tmp_path)
    assert left(tmp_path) == strange | {"elsewhere", f".old-{NAMES[3]}"}


def test_a_folder_that_is_filled_now_stays(tmp_path: Path) -> None:
    """A restore into the folder of backups, under a backup's name."""
    with staged(tmp_path / NAMES[0], "busy") as part:
        (part / "settings.toml").write_text("version = 1")
        clear(tmp_path)
        assert (part / "settings.toml").is_file()
    assert left(tmp_path) == {NAMES[0]}
