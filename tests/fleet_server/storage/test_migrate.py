"""The schema: migrations make what the code says, once, whoever starts first, and never touch a newer one."""

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, IntegrityError

from edge_runtime.errors import ConfigError
from fleet_server.rollouts.plan_records import RolloutPlan, WeeklyWindow
from fleet_server.storage import SchemaTooNew, Store, StoreUnavailable, open_store, upgrade
from fleet_server.storage.event_tables import DeadLetterRow, EventMinuteRow, EventRow
from fleet_server.storage.migrate import METADATA, differences, upgrade_to
from fleet_server.storage.operator_tables import AuditRow, GenerationRow

_FIRST_EVENT = sa.text(
    "INSERT INTO events (id, key, device, epoch, seq, event, revision, state, kind, rule, camera, severity, "
    "data_class, at_ms, synced, received_ms, evidence_sha256, body_sha256, body) "
    "VALUES (7, :key, 'dev-1', 'epoch', 3, 'event', 1, 'started', 'kind', 'rule', 'camera', 2, 'internal', 1, "
    "true, 61000, NULL, :sha, :body)"
)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A database of its own: these tests change its schema."""
    opened = open_store(database_url)
    upgrade(opened)
    yield opened
    opened.close()


def test_migrations_make_what_the_tables_say(store: Store) -> None:
    with store.engine.connect() as connection:
        assert differences(connection) == []
        names = set(sa.inspect(connection).get_table_names())
    assert names == {*METADATA.tables, "alembic_version"}


def test_events_of_the_first_revision_stay_as_they_were(database_url: str) -> None:
    store = open_store(database_url)
    with store.engine.begin() as connection:
        upgrade_to(connection, "0001")
        connection.execute(_FIRST_EVENT, {"key": bytes(16), "sha": b"s" * 32, "body": b"kept"})
    with store.engine.connect() as connection:
        assert differences(connection) != []

    upgrade(store)

    with store.engine.connect() as connection:
        assert differences(connection) == []
        indexes = {found["name"] for found in sa.inspect(connection).get_indexes("events")}
    assert {name for name in indexes if name and name.startswith("ix_")} == {
        "ix_events_device_id",
        "ix_events_evidence",
    }
    with store.read() as session:
        row = session.scalars(sa.select(EventRow)).one()
        minute = session.scalars(sa.select(EventMinuteRow)).one()
    assert (minute.minute, minute.first_id, minute.last_id) == (1, 7, 7)
    assert (row.id, row.key, row.device, row.seq, row.body) == (7, bytes(16), "dev-1", 3, b"kept")
    with pytest.raises(IntegrityError), store.write() as session:
        session.execute(sa.text("INSERT INTO events SELECT * FROM events"))
    store.close()


def test_windows_of_stored_plans_get_the_words_of_today(database_url: str) -> None:
    before = [
        {"days": ["mon"], "begins": "22:00", "ends": "05:00", "zone": "Europe/Berlin"},
        {"days": ["sat", "sun"], "begins": "00:00", "ends": "24:00"},
    ]
    plan = {"name": "t", "slot": "s", "release": "r", "counter": 1, "stages": [{}], "notes": "dämmert"}
    opened = open_store(database_url)
    with opened.engine.begin() as connection:
        upgrade_to(connection, "0004")
        for windows in (before, None):
            text = json.dumps(plan if windows is None else {**plan, "windows": windows})
            connection.execute(
                sa.text(
                    "INSERT INTO rollouts (name, slot, release, counter, target, length, sha256, terms, plan, "
                    "state, reason_code, reason, author, created_ms, changed_ms, spent_approval, "
                    "touched_ms, looked_ms) "
                    "VALUES ('t', 's', 'r', 1, 'x', 1, 'y', '{}', :plan, 'ready', 'asked', '', 'a', 0, 0, 0, 0, 0)"
                ),
                {"plan": text},
            )
    upgrade(opened)
    with opened.read() as session:
        found = [row[0] for row in session.execute(sa.text("SELECT plan FROM rollouts ORDER BY number"))]
    opened.close()
    renamed, other = (RolloutPlan.model_validate_json(text) for text in found)
    assert renamed.windows == (
        WeeklyWindow(days=("mon",), start="22:00", end="05:00", time_zone="Europe/Berlin"),
        WeeklyWindow(days=("sat", "sun"), start="00:00", end="00:00"),
    )
    assert (renamed.notes, other.windows) == ("dämmert", ())


def test_a_column_that_no_revision_makes_is_noticed(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE generations ADD COLUMN surprise INTEGER"))
    with store.engine.connect() as connection:
        assert "surprise" in str(differences(connection))


def test_a_second_start_changes_nothing(store: Store) -> None:
    with store.write() as session:
        session.add(GenerationRow(name="devices", value=7))
    upgrade(store)
    with store.read() as session:
        assert session.get_one(GenerationRow, "devices").value == 7


def test_a_newer_schema_is_refused_in_one_sentence_and_left_alone(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(SchemaTooNew, match="9999, made by a newer release") as caught:
        upgrade(store)

    assert "\n" not in str(caught.value)
    with store.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "9999"


def test_processes_that_start_together_wait_for_each_other(database_url: str) -> None:
    script = (
        "import sys; from fleet_server.storage import open_store, upgrade; upgrade(open_store(sys.argv[1]))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, database_url], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    said = [child.communicate(timeout=60)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], said


def test_a_failed_revision_leaves_nothing_behind(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(database_url)
    with store.engine.begin() as connection:  # the last table but some that 0001 makes stands in its way
        connection.execute(sa.text("CREATE TABLE settled (a INTEGER)"))

    with pytest.raises(StoreUnavailable, match="settled"):
        upgrade(store)

    with store.engine.connect() as connection:
        assert set(sa.inspect(connection).get_table_names()) <= {"settled"}
    store.close()


def test_a_folder_that_cannot_be_written_is_said_without_the_url(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/absent/secret.db")
    with pytest.raises(StoreUnavailable, match="unable to open database file") as caught:
        upgrade(store)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_said_without_the_password(tmp_path: Path) -> None:
    store = open_store(f"postgresql://fleet:sesame@/fleet?host={tmp_path}")
    with pytest.raises(StoreUnavailable, match="cannot be used") as caught:
        upgrade(store)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "oracle://u:sesame@h/d"])
def test_other_urls_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(url)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'x'", "DELETE FROM audit"])
def test_no_statement_changes_the_audit_log(store: Store, statement: str) -> None:
    with store.write() as session:
        session.add(
            AuditRow(at_ms=1, actor="a", action="b", subject="c", detail="{}", previous=b"p", hash=b"h")
        )
    with pytest.raises(DatabaseError, match="append-only"), store.write() as session:
        session.execute(sa.text(statement))


def test_a_reader_sees_one_state_and_cannot_write(store: Store) -> None:
    with store.read() as reader:
        before = reader.scalar(sa.select(sa.func.count()).select_from(DeadLetterRow))
        with store.write() as writer:
            writer.add(
                DeadLetterRow(device="d", channel="c", received_ms=1, code="x", text="", size=0, body=b"")
            )
        assert reader.scalar(sa.select(sa.func.count()).select_from(DeadLetterRow)) == before == 0
    with store.read() as reader:
        assert reader.scalar(sa.select(sa.func.count()).select_from(DeadLetterRow)) == 1


def test_sqlite_keeps_what_was_committed_through_a_power_cut(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/fleet.db")
    with store.engine.connect() as connection:
        assert connection.scalar(sa.text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(sa.text("PRAGMA synchronous")) == 2
    store.close()


@pytest.mark.parametrize(("made_with", "page_bytes"), [(None, 8192), (4096, 4096)])
def test_a_new_file_has_large_pages_and_an_old_one_keeps_its_own(
    tmp_path: Path, made_with: int | None, page_bytes: int
) -> None:
    file = tmp_path / "fleet.db"
    if made_with is not None:
        with contextlib.closing(sqlite3.connect(file)) as old:
            old.execute(f"PRAGMA page_size={made_with}")
            old.execute("CREATE TABLE something (a)")
            old.commit()
    store = open_store(f"sqlite:///{file}")
    upgrade(store)
    with store.engine.connect() as connection:
        assert connection.scalar(sa.text("PRAGMA page_size")) == page_bytes
    store.close()
