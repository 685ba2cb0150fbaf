"""Statements for the driver: the same on both databases, and their errors are SQLAlchemy's."""

from collections.abc import Iterator

import pytest
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from fleet_server.storage import Store
from fleet_server.storage.writing import insert_new, run, run_many

_COLUMNS = {"key": "bytea", "text": "text", "number": "bigint", "flag": "integer[]::boolean", "maybe": "text"}


@pytest.fixture
def connection(store: Store) -> Iterator[Connection]:
    blob, boolean = ("BLOB", "INTEGER") if store.is_sqlite else ("bytea", "boolean")
    with store.engine.connect() as opened, opened.begin() as transaction:
        opened.exec_driver_sql(
            f"CREATE TEMPORARY TABLE things (key {blob} UNIQUE, text TEXT NOT NULL, number BIGINT, "
            f"flag {boolean}, maybe TEXT)"
        )
        yield opened
        transaction.rollback()


def _rows(connection: Connection) -> list[tuple[object, ...]]:
    found = run(connection, "SELECT key, text, number, flag, maybe FROM things ORDER BY number")
    return [(bytes(row[0]), *row[1:]) for row in found]


def test_only_rows_with_a_new_key_are_inserted(connection: Connection) -> None:
    rows = [(bytearray(bytes([n])), f"t{n}%s?\u00e9", n << 40, n % 2, None) for n in range(5)]
    assert insert_new(connection, "things", _COLUMNS, rows[:3], "key") == 3
    assert insert_new(connection, "things", _COLUMNS, rows, "key") == 2
    assert insert_new(connection, "things", _COLUMNS, rows, "key") == 0
    assert _rows(connection) == [(bytes(row[0]), *row[1:]) for row in rows]


def test_many_rows_are_counted_as_few_are(connection: Connection) -> None:
    rows = [(bytearray(bytes([n])), f"t{n}", n, 0, None) for n in range(60)]
    assert insert_new(connection, "things", _COLUMNS, rows[10:40], "key") == 30
    assert insert_new(connection, "things", _COLUMNS, [*rows, rows[3]], "key") == 30
    assert insert_new(connection, "things", _COLUMNS, rows, "key") == 0
    assert len(_rows(connection)) == 60


def test_a_key_twice_in_one_batch_keeps_the_first(connection: Connection) -> None:
    rows = [(bytearray(b"k"), text, 1, 0, "x") for text in ("first", "second")]
    assert insert_new(connection, "things", _COLUMNS, rows, "key") == 1
    assert _rows(connection)[0][1] == "first"


def test_an_error_of_the_database_is_one_of_sqlalchemy(connection: Connection) -> None:
    with pytest.raises(IntegrityError), connection.begin_nested():
        insert_new(connection, "things", _COLUMNS, [(bytearray(b"k"), None, 1, 0, None)], "key")
    with pytest.raises(SQLAlchemyError), connection.begin_nested():
        run(connection, "SELECT nothing FROM nowhere WHERE a = ?", 1)
    assert _rows(connection) == []


def test_values_go_where_the_marks_are(connection: Connection) -> None:
    run_many(
        connection,
        "INSERT INTO things (key, text, number) VALUES (?, ?, ?)",
        [(b"a", "one", 1), (b"b", "two", 2)],
    )
    run(connection, "UPDATE things SET text = ? WHERE number = ?", "zwei", 2)
    assert [row[1] for row in _rows(connection)] == ["one", "zwei"]
    with pytest.raises(SQLAlchemyError), connection.begin_nested():
        run(connection, "UPDATE things SET text = ? WHERE number = ?", "too few")
