"""Following events as they arrive, in any number of steps, from a number on.

SQLite gives numbers in the order of commits: what is above the last one seen is all that is new. PostgreSQL gives
a number when a row is written, so of two ingest workers the one with the higher number may commit first. There a
follower also looks back over the last numbers for rows that it has not given yet.
"""

from collections import deque

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleet_server.operators.events import EventFilter, StoredEvent, after, by_ids
from fleet_server.storage.event_tables import EventRow

LOOK_BACK = 1000
"""Numbers below the newest that another worker may still commit: one batch is at most 1000 events."""


class Follower:
    """Gives each event once, in the order in which it becomes visible.

    Args:
        start: only events with a number above this one.
        out_of_order: whether a lower number may appear later; true for PostgreSQL.
    """

    def __init__(self, start: int, *, out_of_order: bool) -> None:
        self._start, self._cursor = start, start
        self._out_of_order = out_of_order
        self._given: deque[int] = deque(maxlen=2 * LOOK_BACK)

    def step(self, session: Session, wanted: EventFilter, limit: int) -> list[StoredEvent]:
        """What is new and meant, at most `limit` events; empty when there is nothing yet."""
        if not self._out_of_order:
            found = after(session, wanted, self._cursor, limit)
            if found:
                self._cursor = found[-1].id
            return found
        floor = max(self._start, self._cursor - LOOK_BACK)
        query = wanted.apply(select(EventRow.id)).where(EventRow.id > floor).order_by(EventRow.id)
        given = set(self._given)
        fresh = [number for number in session.scalars(query.limit(LOOK_BACK + limit)) if number not in given]
        fresh = fresh[:limit]
        self._given.extend(fresh)
        if fresh:
            self._cursor = max(self._cursor, fresh[-1])
        return by_ids(session, wanted, fresh)
