"""What stands before every request: the address's rate, the size and time of a body, one deadline, one log line.

A body that is not evidence is read whole before the application sees the request, so that a slow sender occupies
no thread. Nothing that goes wrong inside reaches the client as more than a problem with a number.
"""

import asyncio
import logging
import secrets
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.http.limits import Buckets, Limits, address_name
from fleet_server.http.metrics import HttpMetrics
from fleet_server.http.problems import Problem, ProblemResponse

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

STREAM_PATH = "/v1/events/stream"
PIECES_PATHS = ("/v1/evidence/", "/v1/releases/blobs/")
"""Where files come in by pieces."""

PROPOSAL_PATHS = ("/v1/releases/announce", "/v1/releases/publish")
DOWNLOAD_PATH = "/v1/updates/blobs/"
BATCH_PATHS = ("/v1/invitations", "/v1/rollouts", "/v1/rollouts/plan", "/v1/rollouts/plan/devices")

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"strict-transport-security", b"max-age=31536000"),
)
_log = logging.getLogger("fleet_server.http")


class Shield:
    """ASGI middleware, the outermost one.

    Args:
        app: what is protected.
        limits: how much is allowed.
        clock: for the rates and the durations.
        metrics: counts every answer.
    """

    def __init__(self, app: App, limits: Limits, clock: Clock, metrics: HttpMetrics) -> None:
        self._app, self._limits, self._clock, self._metrics = app, limits, clock, metrics
        self._addresses = Buckets(limits.address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; anything but HTTP goes straight on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_ns = self._clock.monotonic_ns()
        answer = _Answer(send, self._limits.send_s)
        try:
            await self._bounded(scope, receive, answer)
        except Problem as problem:
            await _send_problem(problem, scope, answer)
        except asyncio.TimeoutError:
            if answer.status:
                return  # it does not read its answer, or the rest came too late: the connection is closed
            await _send_problem(
                Problem(503, "too_slow", "the request took too long: try again", {"Retry-After": "5"}),
                scope,
                answer,
            )
        except Exception as error:  # noqa: BLE001 - the last handler: a client sees no more than a number
            number = secrets.token_hex(4)
            # Where it happened and what kind it is; its text may hold what was asked or stored.
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error("request failed number=%s error=%s\n%s", number, type(error).__name__, frames)
            text = f"the server failed; its log names this failure {number}"
            await _send_problem(Problem(500, "failed", text), scope, answer)
        finally:
            self._count(scope, answer.status, self._clock.monotonic_ns() - began_ns)

    async def _bounded(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        if {b"content-length", b"transfer-encoding"} <= {name.lower() for name, _ in scope["headers"]}:
            # a proxy may read the one and we the other: what then follows would be somebody else's request
            text = "a request says its length once: by Content-Length or by Transfer-Encoding"
            raise Problem(400, "two_lengths", text, {"Connection": "close"})
        wait = self._addresses.take(_address(scope), self._clock.monotonic_ns())
        if wait:
            raise too_many("this address asks too often", wait)
        if scope["path"] == STREAM_PATH and scope["method"] == "GET":
            await self._app(scope, receive, answer)
            return
        if scope["path"].startswith(DOWNLOAD_PATH) and scope["method"] == "GET":
            await asyncio.wait_for(self._app(scope, receive, answer), self._limits.download_s)
            return
        if scope["path"].startswith(PIECES_PATHS) and scope["method"] == "PATCH":
            limited = _Limited(receive, _length(scope), self._limits.chunk_bytes)
            await asyncio.wait_for(self._app(scope, limited, answer), self._limits.chunk_s)
            return
        limited = _Limited(receive, _length(scope), self._most(scope["path"]))
        try:
            body = await asyncio.wait_for(limited.whole(), self._limits.body_s)
        except asyncio.TimeoutError:
            raise Problem(408, "body_too_slow", "the request's body did not arrive in time") from None
        if body is None:
            return  # the client left
        await asyncio.wait_for(self._app(scope, _replayed(body, receive), answer), self._limits.request_s)

    def _most(self, path: str) -> int:
        if path in PROPOSAL_PATHS:
            return self._limits.proposal_bytes
        return self._limits.batch_bytes if path in BATCH_PATHS else self._limits.body_bytes

    def _count(self, scope: Scope, status: int, took_ns: int) -> None:
        route = getattr(scope.get("route"), "path", "(none)")
        self._metrics.count(scope["method"], route, status, took_ns)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.warning(
                "answered method=%s route=%s status=%d ms=%d",
                scope["method"],
                route,
                status,
                took_ns // NS_PER_MS,
            )


def too_many(what: str, wait_s: int) -> Problem:
    """429 with the seconds after which the next request will be taken."""
    return Problem(429, "too_many_requests", f"{what}: wait {wait_s} s", {"Retry-After": str(wait_s)})


class _Answer:
    """`send`, with the status that was sent, the headers that every answer gets, and an end to its patience.

    A reader that takes nothing would otherwise keep its live stream, and a place of 64, for ever.
    """

    def __init__(self, send: Send, patience_s: float) -> None:
        self._send, self._patience_s = send, patience_s
        self.status = 0

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [header for header in _HEADERS if header[0] not in given]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await asyncio.wait_for(self._send(message), self._patience_s)


class _Limited:
    """`receive`, which refuses more than so many bytes.

    Raises:
        Problem: 413, from the first message on that is too much, or before any where the length is declared.
    """

    def __init__(self, receive: Receive, declared: int, most: int) -> None:
        self._receive, self._most, self._seen = receive, most, 0
        if declared > most:
            raise self._too_large()

    async def __call__(self) -> dict[str, Any]:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._most:
            raise self._too_large()
        return message

    async def whole(self) -> bytes | None:
        """The body, or None when the client left before its end."""
        parts: list[bytes] = []
        while True:
            message = await self()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> Problem:
        return Problem(413, "too_large", f"a request here has at most {self._most} bytes")


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> dict[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name.lower() == b"content-length":
            return int(value) if value.isdigit() and len(value) < 16 else 1 << 62
    return 0


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return address_name(client[0] if client else None)


async def _send_problem(problem: Problem, scope: Scope, answer: _Answer) -> None:
    if answer.status:
        raise RuntimeError("the answer had begun") from problem  # uvicorn then closes the connection
    await ProblemResponse(problem)(scope, _nothing, answer)  # type: ignore[arg-type]


async def _nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}
