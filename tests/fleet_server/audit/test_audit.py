"""The audit log: written with the act or not at all, whole under concurrent writers, and every change is found."""

import threading
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from fleet_server.audit import GENESIS, Audit, entries, entry_hash, verify
from fleet_server.audit.chain import MAX_DETAIL_BYTES, canonical, fitting
from fleet_server.storage import Store, open_store
from fleet_server.storage.operator_tables import AuditRow, GenerationRow
from tests.rigs.deliveries import FakeClock


@pytest.fixture
def audit() -> Audit:
    return Audit(FakeClock())


def _fill(store: Store, audit: Audit, count: int = 5) -> None:
    for number in range(count):
        with store.write() as session:
            audit.record(session, "ann", "device.approve", f"dev-{number}", {"n": number})


def _tamper(store: Store, statement: str) -> None:
    with store.engine.begin() as connection:
        if store.is_sqlite:
            for verb in ("update", "delete"):
                connection.exec_driver_sql(f"DROP TRIGGER audit_no_{verb}")
        else:
            connection.exec_driver_sql("SET session_replication_role = replica")
        connection.exec_driver_sql(statement)
        if not store.is_sqlite:
            connection.exec_driver_sql("SET session_replication_role = origin")


def test_an_empty_log_is_whole(store: Store) -> None:
    with store.read() as session:
        report = verify(session)
    assert (report.whole, report.entries, report.head) == (True, 0, GENESIS.hex())


def test_entries_follow_each_other(store: Store, audit: Audit) -> None:
    _fill(store, audit)
    with store.read() as session:
        report = verify(session)
        newest = entries(session, limit=2)
    assert (report.whole, report.entries) == (True, 5)
    assert [row.subject for row in newest] == ["dev-4", "dev-3"]
    assert report.head == newest[0].hash.hex()
    assert newest[0].detail == '{"n":4}'


def test_an_act_that_is_rolled_back_leaves_no_entry(store: Store, audit: Audit) -> None:
    _fill(store, audit, 1)

    def act() -> None:
        with store.write() as session:
            session.add(GenerationRow(name="devices", value=1))
            audit.record(session, "ann", "device.revoke", "dev-1", {})
            raise RuntimeError("cut")

    with pytest.raises(RuntimeError):
        act()
    with store.read() as session:
        assert verify(session).entries == 1
        assert session.scalar(select(func.count()).select_from(GenerationRow)) == 0


def test_several_entries_in_one_transaction(store: Store, audit: Audit) -> None:
    with store.write() as session:
        for _ in range(3):
            audit.record(session, "ann", "a", "s", {})
    with store.read() as session:
        assert verify(session).entries == 3


def test_concurrent_writers_make_one_chain(store: Store, audit: Audit) -> None:
    failures: list[BaseException] = []

    def write(name: str) -> None:
        mine = open_store(store.engine.url.render_as_string(hide_password=False))
        try:
            for number in range(15):
                with mine.write() as session:
                    audit.record(session, name, "act", str(number), {})
        except BaseException as error:  # noqa: BLE001 - whatever it was, the test must see it
            failures.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=write, args=(f"writer-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    with store.read() as session:
        report = verify(session)
    assert (report.whole, report.entries) == (True, 60)


@pytest.mark.parametrize(
    ("statement", "found_at"),
    [
        ("UPDATE audit SET actor = 'eve' WHERE subject = 'dev-2'", 3),
        ("UPDATE audit SET action = 'x' WHERE subject = 'dev-0'", 1),
        ("UPDATE audit SET detail = '{}' WHERE subject = 'dev-4'", 5),
        ("UPDATE audit SET at_ms = at_ms + 1 WHERE subject = 'dev-1'", 2),
        ("DELETE FROM audit WHERE subject = 'dev-2'", 4),
        ("DELETE FROM audit WHERE subject = 'dev-0'", 2),
    ],
)
def test_every_change_is_found(store: Store, audit: Audit, statement: str, found_at: int) -> None:
    _fill(store, audit)
    with store.read() as session:
        first = session.scalar(select(func.min(AuditRow.id))) or 0
    _tamper(store, statement)
    with store.read() as session:
        report = verify(session)
    assert (report.whole, report.broken_at) == (False, first + found_at - 1)
    assert report.detail
    assert report.entries == {3: 2, 1: 0, 5: 4, 2: 0 if "DELETE" in statement else 1, 4: 2}[found_at]


@pytest.mark.parametrize("place", [0, -1])
def test_an_entry_before_the_first_is_found(store: Store, audit: Audit, place: int) -> None:
    _fill(store, audit, 3)
    with store.write() as session:
        said = {"actor": "eve", "action": "device.approve", "subject": "dev-9", "detail": "{}"}
        session.add(AuditRow(id=place, at_ms=1, previous=b"x" * 32, hash=bytes(32), **said))
    with store.read() as session:
        report = verify(session)
    assert (report.whole, report.broken_at, report.entries) == (False, place, 0)


def test_a_forged_entry_whose_hash_fits_breaks_the_one_after_it(store: Store, audit: Audit) -> None:
    _fill(store, audit, 3)
    with store.read() as session:
        row = session.scalars(select(AuditRow).filter_by(subject="dev-1")).one()
        forged = entry_hash(row.previous, row.at_ms, "eve", row.action, row.subject, row.detail)
        third = row.id + 1
    _tamper(
        store, f"UPDATE audit SET actor = 'eve', hash = {_literal(store, forged)} WHERE subject = 'dev-1'"
    )
    with store.read() as session:
        assert verify(session).broken_at == third


def test_a_cut_tail_shows_in_the_head_alone(store: Store, audit: Audit) -> None:
    _fill(store, audit, 3)
    with store.read() as session:
        before = verify(session)
    _tamper(store, "DELETE FROM audit WHERE subject = 'dev-2'")
    with store.read() as session:
        after = verify(session)
    assert after.whole
    assert (after.entries, after.head == before.head) == (2, False)


def test_a_long_log_is_verified_in_pages(store: Store, audit: Audit) -> None:
    with store.write() as session:
        for number in range(1005):
            audit.record(session, "ann", "a", str(number), {})
    with store.read() as session:
        assert verify(session).entries == 1005


def test_any_text_can_be_recorded(store: Store, audit: Audit) -> None:
    hostile = ["\0", "\ud800", "'; DROP TABLE audit; --", "x" * 1000, "\n\x1b[31m", "ü" * 200, ""]
    for text in hostile:
        with store.write() as session:
            audit.record(session, text, text, text, {"note": text})
    with store.read() as session:
        report = verify(session)
    assert (report.whole, report.entries) == (True, len(hostile))


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none()))
def test_canonical_json_is_one_ascii_line_and_bounded(detail: dict[str, Any]) -> None:
    text = canonical(detail)
    assert text.isascii()
    assert "\n" not in text
    assert text == canonical(dict(reversed(detail.items())))
    assert len(text) <= MAX_DETAIL_BYTES


def test_a_detail_that_is_too_long_is_named_by_its_digest() -> None:
    text = canonical({"note": "x" * 10_000})
    assert set(sa.text(text).text) <= set('{}":,0123456789abcdefghijklmnopqrstuvwxyz')
    assert '"bytes":10011' in text


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object(), b"x"])
def test_what_json_does_not_know_is_refused(bad: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical({"v": bad})


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_texts_fit_their_columns(actor: str, action: str, subject: str) -> None:
    fitted = fitting(actor, action, subject)
    assert [len(text) <= most for text, most in zip(fitted, (80, 64, 128), strict=True)] == [True] * 3
    assert all(text.isprintable() for text in fitted)


def _literal(store: Store, value: bytes) -> str:
    return f"x'{value.hex()}'" if store.is_sqlite else f"'\\x{value.hex()}'::bytea"
