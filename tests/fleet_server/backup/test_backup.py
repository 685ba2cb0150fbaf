"""A server is backed up, read again and put back: on both databases, and from one to the other."""

import hashlib
import shutil
import stat
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from edge_runtime.errors import ConfigError
from fleet_server.audit import verify as verify_audit
from fleet_server.backup import BackupFailed, backups_in, create, restore, verify
from fleet_server.backup.database import copy_out
from fleet_server.backup.keeping import LOCK
from fleet_server.backup.manifest import write_manifest
from fleet_server.backup.staging import turn
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import LocalTarget
from fleet_server.ingest import Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.serve.backup_stamp import newest_point_ms
from fleet_server.settings import DATABASE_VARIABLE
from tests.fleet_server.backup.conftest import DIGEST, PICTURE, Site, tables
from tests.rigs.databases import new_database
from tests.rigs.deliveries import DeviceRig, grant

GOES_ON = {"audit", "release_metadata", "device_updates", "desired_states", "generations"}
"""Tables in which a restored server is ahead of its backup."""

PICTURE_NAME = f"evidence/{DIGEST[:2]}/{DIGEST}"


def test_everything_comes_back_and_can_be_used(site: Site, tmp_path: Path) -> None:
    before = tables(site.api.application.settings.database_url)
    backup, manifest = site.back_up()
    assert verify(backup) == manifest
    assert manifest.rows == {name: len(rows) for name, rows in before.items()}
    found = site.restored(backup, tmp_path / "again")
    opened = site.opened(found)
    after = tables(opened.settings.database_url)
    assert {name for name in before if before[name] != after[name]} <= GOES_ON
    with opened.store.read() as session:
        audit = verify_audit(session)
    assert (audit.whole, audit.entries) == (True, manifest.audit_entries + 2)
    assert opened.services.evidence.path("dock-1", DIGEST).read_bytes() == PICTURE
    # PostgreSQL counts beside the table: the next event must not take the number of one that is there
    now = Now(0, site.api.clock.wall_ms, synced=True)
    rig = DeviceRig("dock-1", site.dock.epoch)
    topic, payload = rig.bundle(rig.item(seq=4, event={"rule": "fourth"}))
    Committer(opened.store, Limits()).commit([inspect(Arrival(topic, payload, 0), Rules(), now)], now.wall_ms)
    opened.close()
    client = FleetClient.to(LocalTarget(found.directory))
    events = client.get("/v1/events", device="dock-1")["events"]
    assert [event["rule"] for event in events] == ["fourth", "dock-watch", "second", "first"]
    assert client.get("/v1/audit")["entries"][0]["detail"]["backup"] == manifest.id
    client.close()


def test_what_is_secret_is_private_and_said(site: Site, tmp_path: Path) -> None:
    backup, manifest = site.back_up()
    files = {"authority/ca.key", "admin.token", "settings.toml", "fleet.db", "tls/server.key"}
    assert files <= set(manifest.secrets)
    assert [name for name in manifest.secrets if name.startswith("releases/keys/director")]
    found = site.restored(backup, tmp_path / "again")
    for root in (backup, found.directory):
        for path in [root, *root.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            public = path.suffix == ".pem" and root is found.directory and path.parent.name != "keys"
            assert mode == (0o700 if path.is_dir() else 0o644 if public else 0o600), (path, oct(mode))


def test_a_file_that_never_changes_is_kept_once(site: Site) -> None:
    first, _ = site.back_up()
    second, manifest = site.back_up()
    assert (first / PICTURE_NAME).samefile(second / PICTURE_NAME)
    site.back_up(keep=2)
    assert [path.name for path, _ in backups_in(site.kept)][:-1] == [second.name]
    assert verify(second) == manifest, "its files outlive the backup that they were linked from"


def test_a_backup_goes_to_the_other_database(
    site: Site, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    is_file = site.api.application.store.is_sqlite
    other = new_database(request, tmp_path, "postgresql") if is_file else "file"
    before = tables(site.api.application.settings.database_url)
    found = restore(site.back_up()[0], tmp_path / "moved", {}, database=other)
    opened = site.opened(found)
    after = tables(opened.settings.database_url)
    opened.close()
    assert {name for name in before if before[name] != after[name]} <= GOES_ON


def test_a_backup_while_events_come_in_is_of_one_moment(site: Site) -> None:
    """What was committed before it began is in it, and what is in it adds up."""
    site.api.add_device("dock-2")
    rig, stop = DeviceRig("dock-2"), threading.Event()
    committed: list[int] = []

    def deliver() -> None:
        while not stop.is_set():
            site.api.deliver(rig, {}, {})
            committed.append(2)

    thread = threading.Thread(target=deliver)
    thread.start()
    try:
        for _ in range(3):
            while not committed:
                stop.wait(0.01)
            before = sum(committed)
            backup, _ = site.back_up()
            found = tables(f"sqlite:///{_copy(backup)}")
            events = [row for row in found["events"] if row[2] == "dock-2"]
            assert len(events) >= before
            settled = sum(row[3] for row in found["fate_counts"] if row[0] == "dock-2")
            assert settled == len(events), "the books and the rows are of one moment"
    finally:
        stop.set()
        thread.join()


def _copy(backup: Path) -> Path:
    """The database to look at: opened, it would be written to."""
    return Path(shutil.copy(backup / "fleet.db", backup.parent / f"{backup.name}.db"))


def test_a_place_that_is_not_empty_is_refused(site: Site, tmp_path: Path) -> None:
    backup, _ = site.back_up()
    with pytest.raises(ConfigError, match="not empty"):
        restore(backup, site.api.directory, {}, database="file")
    said = "file of SQLite elsewhere" if site.api.application.store.is_sqlite else "database is not empty"
    with pytest.raises(ConfigError, match=said):
        restore(backup, tmp_path / "again", {})
    with pytest.raises(ConfigError, match="another disk"):
        create(site.api.directory, site.api.directory / "backups", {})
    with turn(site.kept / LOCK, "busy"), pytest.raises(BackupFailed, match="another backup is made"):
        site.back_up()
    assert not list(tmp_path.iterdir())


def test_evidence_that_the_server_lost_is_said_and_stops_no_backup(own_site: Site, tmp_path: Path) -> None:
    place = own_site.api.directory / PICTURE_NAME
    place.write_bytes(b"x" + PICTURE[1:])
    _, manifest = own_site.back_up()
    assert [one.reason for one in manifest.absent] == ["its bytes are not those of its name"]
    place.unlink()
    backup, manifest = own_site.back_up()
    assert [one.reason for one in manifest.absent] == ["it is not there"]
    assert verify(backup) == manifest
    opened = own_site.opened(own_site.restored(backup, tmp_path / "again"))
    upload = opened.services.evidence.status("dock-1", DIGEST)
    opened.close()
    assert not upload.complete, "the device may send it again"


def test_files_and_audit_are_of_the_moment_of_the_database(
    own_site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is uploaded, and what retention deletes, while the first files are copied; an audit that was changed."""
    late = b"late" * 100
    digest = hashlib.sha256(late).hexdigest()

    def meanwhile(*arguments: object) -> None:
        evidence, dock = own_site.api.application.services.evidence, own_site.dock
        own_site.api.take(dock.bundle(dock.item(decision={"evidence": grant(digest, len(late))})))
        evidence.append("dock-1", digest, 0, late)
        with own_site.api.write() as session:
            evidence.forget(session, "dock-1", DIGEST)
        copy_out(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sys.modules["fleet_server.backup.create"], "copy_out", meanwhile)
    with own_site.api.application.store.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER audit_no_update"))
        connection.execute(text("UPDATE audit SET actor = 'nobody' WHERE id = 2"))
    backup, manifest = own_site.back_up()
    assert not manifest.absent
    saved = [file.path for file in manifest.files if file.path.startswith("evidence/")]
    assert saved == [f"evidence/{digest[:2]}/{digest}"]
    assert manifest.audit_broken_at == 2
    assert verify(backup) == manifest
    own_site.restored(backup, tmp_path / "again")


@pytest.mark.parametrize("what", ["a byte that has rotten", "a mode that somebody changed"])
def test_what_an_earlier_backup_lost_is_not_passed_on(own_site: Site, what: str) -> None:
    first, _ = own_site.back_up()
    if what == "a byte that has rotten":
        (first / PICTURE_NAME).write_bytes(b"x" + PICTURE[1:])
    else:
        (first / PICTURE_NAME).chmod(0o644)
    second, manifest = own_site.back_up()
    assert not manifest.absent
    assert not (second / PICTURE_NAME).samefile(first / PICTURE_NAME)
    assert verify(second) == manifest


def test_the_backup_just_made_stays_whatever_the_others_are_dated(own_site: Site) -> None:
    first, _ = own_site.back_up()
    ahead = first.rename(first.with_name("fleet-20990101T000000Z"))
    paths = own_site.api.application.settings.paths
    second, manifest = own_site.back_up(keep=1)
    assert [path for path, _ in backups_in(own_site.kept)] == [second]
    assert second.name > ahead.name
    assert newest_point_ms(paths) == manifest.point_ms
    assert manifest.point_ms == own_site.api.clock.wall_ms, "its moment is the true one"
    third, manifest = own_site.back_up()
    (own_site.kept / f".old-{second.name}").touch()  # in the way of its rename
    with pytest.raises(
        BackupFailed, match=r"was made, and older backups could not be deleted: Not a directory"
    ):
        own_site.back_up(keep=1)
    assert len(backups_in(own_site.kept)) == 3
    assert verify(third) == manifest
    assert newest_point_ms(paths) == own_site.api.clock.wall_ms


def test_a_server_on_postgresql_does_not_become_one_on_a_file_unasked(own_site: Site, tmp_path: Path) -> None:
    """Its URL stood in the environment, and the settings name none."""
    settings = own_site.api.application.settings.paths.settings
    settings.write_text(
        "\n".join(line for line in settings.read_text().splitlines() if "database" not in line)
    )
    url = own_site.api.application.settings.database_url
    backup, manifest = create(own_site.api.directory, own_site.kept, {DATABASE_VARIABLE: url})
    write_manifest(backup, manifest.model_copy(update={"database": "postgresql"}))
    with pytest.raises(ConfigError, match="ran on PostgreSQL and nothing names one now"):
        restore(backup, tmp_path / "again", {})
    assert not (tmp_path / "again").exists()
    assert restore(backup, tmp_path / "again", {}, database="file").database == "sqlite"
    write_manifest(backup, manifest)
    assert restore(backup, tmp_path / "as-it-was", {}).database == "sqlite"
