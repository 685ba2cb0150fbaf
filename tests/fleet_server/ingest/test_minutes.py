"""What came when: one row a minute bounds the ids, and the answers are those of a look at every event."""

import pytest
from sqlalchemy import delete, func, select

from fleet_server.evidence import EvidenceStore
from fleet_server.ingest.retention import forget_old
from fleet_server.operators.events import EventFilter, newest
from fleet_server.settings import EvidenceSettings, RetentionSettings
from fleet_server.storage.event_tables import MINUTE_MS, EventMinuteRow, EventRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import DeviceRig, FakeClock

_DAY_S = 24 * 3600
_STEPS_S = (0, 20, 30, 200, -500, 10, 600, 3600, -7200, 59, 1)
"""The clock goes on, and is set back twice."""


def _minutes(server: Server) -> list[tuple[int, int, int]]:
    with server.store.read() as session:
        rows = session.scalars(select(EventMinuteRow).order_by(EventMinuteRow.minute))
        return [(row.minute, row.first_id, row.last_id) for row in rows]


def _fill(server: Server) -> list[int]:
    """Events at many times; when those were."""
    rig, times = DeviceRig(), []
    for step in _STEPS_S:
        server.clock.advance(step)
        times.append(server.clock.wall_ms)
        server.take(rig.bundle(rig.item(), rig.item()))
    return times


def test_since_and_until_find_what_a_look_at_every_event_finds(server: Server) -> None:
    times = _fill(server)
    with server.store.read() as session:
        everything = [(row.id, row.received_ms) for row in session.scalars(select(EventRow))]
        instants = sorted({time + shift for time in times for shift in (0, 1)})
        for since in [None, *instants]:
            for until in [None, *instants[::4]]:
                found = newest(session, EventFilter(since_ms=since, until_ms=until), 1000)
                wanted = [
                    row_id
                    for row_id, received in everything
                    if (since is None or received >= since) and (until is None or received < until)
                ]
                assert [event.id for event in found] == sorted(wanted, reverse=True)


def test_a_minute_reaches_from_its_first_event_to_its_last(server: Server) -> None:
    rig = DeviceRig()
    minute = server.clock.wall_ms // MINUTE_MS
    server.clock.wall_ms = minute * MINUTE_MS
    server.take(rig.bundle(*rig.items(3)))
    server.clock.wall_ms += MINUTE_MS - 1
    again = rig.bundle(*rig.items(2))
    server.take(again)
    server.clock.wall_ms += 1
    server.take(again)  # duplicates are no new events
    assert [found[0] for found in _minutes(server)] == [minute]
    server.take(rig.bundle(rig.item()))
    with server.store.read() as session:
        ids = list(session.scalars(select(EventRow.id).order_by(EventRow.id)))
    assert _minutes(server) == [(minute, ids[0], ids[4]), (minute + 1, ids[5], ids[5])]


def test_minutes_go_with_their_events(server: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    _fill(server)
    evidence = EvidenceStore(
        tmp_path_factory.mktemp("evidence"), server.store, EvidenceSettings(keep_free_bytes=0), FakeClock()
    )
    server.clock.advance(91 * _DAY_S)
    done = forget_old(server.store, evidence, RetentionSettings(days=90), server.clock.wall_ms)
    assert done.events == 2 * len(_STEPS_S) - 1
    with server.store.read() as session:
        kept = session.scalars(select(EventRow.id)).one()
    assert [(first <= kept, last) for _, first, last in _minutes(server)] == [(True, kept)]


def test_no_reader_looks_at_every_event_for_a_time(server: Server) -> None:
    _fill(server)
    query = EventFilter(since_ms=1, until_ms=2).apply(select(EventRow.id)).order_by(EventRow.id.desc())
    sqlite = server.store.is_sqlite
    with server.store.engine.connect() as connection:
        text = str(query.limit(50).compile(connection, compile_kwargs={"literal_binds": True}))
        if not sqlite:  # it chooses by the size of the table
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = [
            row[-1] for row in connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN' if sqlite else ''} {text}")
        ]
    if sqlite:
        assert plan[0] == "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
    else:
        assert any("Index Cond: ((id >= " in line and "(id <= " in line for line in plan), plan


def test_an_empty_table_answers(server: Server) -> None:
    with server.store.write() as session:
        session.execute(delete(EventMinuteRow))
    with server.store.read() as session:
        assert newest(session, EventFilter(since_ms=0, until_ms=1 << 50), 10) == []
        assert session.scalar(select(func.count()).select_from(EventMinuteRow)) == 0
