"""Events: a page of them, one of them, and a live stream that a reader can take up where it left off."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.vocabulary import Severity
from fleet_server.http.access import Given, Viewer
from fleet_server.http.problems import Problem, not_found
from fleet_server.http.records import EventAnswer, EventDetail, EventPage, EvidenceAnswer
from fleet_server.http.services import Services
from fleet_server.http.times import instant_ms
from fleet_server.operators import Operator, events
from fleet_server.operators.events import EventFilter, StoredEvent

POLL_S = 0.25
KEEP_ALIVE_S = 10.0
ASK_S = 10.0
"""A token that was revoked keeps its stream for about so long at most, however many events come."""
_BATCH = 200

Text = Annotated[str | None, Query(min_length=1, max_length=128, pattern=r"^[^\x00]+$")]
When = Annotated[
    str | None, Query(max_length=40, description="ISO 8601 with a zone, or milliseconds since 1970")
]
Id = Annotated[int | None, Query(ge=0, lt=1 << 63)]
KeyInPath = Annotated[
    str,
    Path(pattern=r"^([0-9a-f]{32}|[0-9]{1,18})$", description="The delivery key, or the event's number"),
]

router = APIRouter(prefix="/v1/events", tags=["events"])


def wanted_events(
    device: Annotated[DeviceId | None, Query()] = None,
    camera: Text = None,
    rule: Text = None,
    kind: Text = None,
    severity_at_least: Annotated[Severity | None, Query()] = None,
    since: When = None,
    until: When = None,
) -> EventFilter:
    """The filter that a query describes; times are those of the commit, the first included, the second not."""
    return EventFilter(
        device, camera, rule, kind, severity_at_least, instant_ms(since, "since"), instant_ms(until, "until")
    )


Wanted = Annotated[EventFilter, Depends(wanted_events)]


@dataclass(slots=True)
class StreamCount:
    """How many live streams there are; changed in the event loop alone.

    Attributes:
        open: in all.
        of_token: by the id of their token; a token without one has no entry.
    """

    open: int = 0
    of_token: Counter[str] = field(default_factory=Counter)

    @contextlib.contextmanager
    def counted(self, token: str) -> Iterator[None]:
        """One more while the block lasts."""
        self.open += 1
        self.of_token[token] += 1
        try:
            yield
        finally:
            self.open -= 1
            self.of_token[token] -= 1
            if not self.of_token[token]:
                del self.of_token[token]


@router.get("", operation_id="listEvents")
def list_events(
    services: Given,
    _viewer: Viewer,
    wanted: Wanted,
    after_id: Id = None,
    before_id: Id = None,
    limit: Annotated[int, Query(ge=1, le=events.MAX_PAGE)] = 100,
) -> EventPage:
    """Committed events, the newest first; with `after_id` those beyond that number, the oldest first."""
    if after_id is not None and before_id is not None:
        raise Problem(422, "invalid", "after_id and before_id exclude each other")
    with services.store.read() as session:
        if after_id is not None:
            found = events.after(session, wanted, after_id, limit)
        else:
            found = events.newest(session, wanted, limit, before_id)
    following = found[-1].id if len(found) == limit else None
    return EventPage(events=[EventAnswer.model_validate(event) for event in found], next=following)


@router.get(
    "/stream",
    operation_id="streamEvents",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_events(
    request: Request,
    services: Given,
    operator: Viewer,
    wanted: Wanted,
    after_id: Id = None,
    last_event_id: Annotated[str | None, Header(max_length=20, pattern=r"^[0-9]+$")] = None,
) -> Response:
    """Events as they are committed, as server-sent events whose id is the event's number.

    A reader that comes back with `Last-Event-ID` misses nothing; without it, and without `after_id`, the stream
    begins now. An event may come twice after a return: its key tells.
    """
    start = int(last_event_id) if last_event_id is not None else after_id
    if start is not None and start >= 1 << 63:
        raise Problem(422, "invalid", "Last-Event-ID: no number of an event")
    if start is None:
        start = await run_in_threadpool(_newest_id, services)
    # nothing may be awaited from here until the answer counts itself: many who ask at once would all find room
    count: StreamCount = request.app.state.streams
    if count.open >= services.limits.streams:
        text = f"there are {count.open} live streams, which is the most this server gives"
        raise Problem(503, "too_many_streams", text, {"Retry-After": "10"})
    if count.of_token[operator.id] >= services.limits.token_streams:
        text = f"this token has {services.limits.token_streams} live streams, which is the most that one may have"
        raise Problem(429, "too_many_streams", text, {"Retry-After": "10"})
    stream = _Stream(services, wanted, start, operator)
    return _LiveResponse(stream.lines(), count, operator.id)


@router.get("/{key}", operation_id="showEvent")
def show_event(key: KeyInPath, services: Given, _viewer: Viewer) -> EventDetail:
    """One event by its delivery key or its number, with the state of its evidence."""
    with services.store.read() as session:
        found = events.one(session, events.reference(key))
        if found is None:
            raise not_found("event", key)
        evidence = events.evidence_of(session, found)
        answer = EventAnswer.model_validate(found)
        return EventDetail(
            **dict(answer), evidence=None if evidence is None else EvidenceAnswer.model_validate(evidence)
        )


class _LiveResponse(StreamingResponse):
    """Counts while it is being sent: a generator that nobody reads on is closed when the collector comes by."""

    def __init__(self, lines: AsyncIterator[str], count: StreamCount, token: str) -> None:
        super().__init__(lines, media_type="text/event-stream")
        self._count, self._token = count, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._count.counted(self._token):
            await super().__call__(scope, receive, send)


class _Stream:
    """One live stream: polls the database, ends when the server goes down or the token no longer holds."""

    def __init__(self, services: Services, wanted: EventFilter, start: int, operator: Operator) -> None:
        self._services, self._wanted, self._operator = services, wanted, operator
        self._last = start

    async def lines(self) -> AsyncIterator[str]:
        clock = self._services.clock
        began_ns = said_ns = asked_ns = clock.monotonic_ns()
        yield "retry: 1000\n\n"
        while not self._services.closing():
            found = await run_in_threadpool(self._step)
            now_ns = clock.monotonic_ns()
            if now_ns - asked_ns > ASK_S * NS_PER_S:
                asked_ns = now_ns
                if not await run_in_threadpool(self._still_permitted):
                    return
            for event in found:
                body = EventAnswer.model_validate(event).model_dump_json()
                yield f"id: {event.id}\nevent: event\ndata: {body}\n\n"
            if found:
                said_ns = now_ns
            elif now_ns - said_ns > KEEP_ALIVE_S * NS_PER_S:
                said_ns = now_ns
                yield ": still here\n\n"
            if now_ns - began_ns > self._services.limits.stream_s * NS_PER_S:
                return
            if len(found) < _BATCH:
                await asyncio.sleep(POLL_S)

    def _step(self) -> list[StoredEvent]:
        # Ingest commits one transaction after the other, on PostgreSQL as well: no smaller number comes later.
        with self._services.store.read() as session:
            found = events.after(session, self._wanted, self._last, _BATCH)
        if found:
            self._last = found[-1].id
        return found

    def _still_permitted(self) -> bool:
        with self._services.store.read() as session:
            return self._services.tokens.is_active(session, self._operator.id)


def _newest_id(services: Services) -> int:
    with services.store.read() as session:
        return events.newest_id(session)
