"""Readers that stay too long, and such as leave too early."""

import asyncio
import hashlib
import os
from pathlib import Path

from starlette.requests import ClientDisconnect
from starlette.types import Message

from fleet_server.http.events_routes import ASK_S, _Stream
from fleet_server.http.evidence_routes import fetch_evidence
from fleet_server.operators import Operator, Role
from fleet_server.operators.events import EventFilter
from tests.rigs.deliveries import DeviceRig, grant
from tests.rigs.fleet_api import FleetApi


def _operator(api: FleetApi, role: Role) -> Operator:
    tokens = api.application.services.tokens
    with api.write() as session:
        token, _ = tokens.create(session, "anna", role)
    return Operator(token.id, "anna", role)


def test_a_revoked_token_loses_its_stream_although_events_come(small_api: FleetApi) -> None:
    api, dock, seen = small_api, DeviceRig("dock-1"), list[int]()
    operator = _operator(api, Role.VIEWER)
    services = api.application.services

    async def read() -> None:
        nothing = EventFilter(None, None, None, None, None, None, None)
        api.deliver(dock, {})
        async for line in _Stream(services, nothing, 0, operator).lines():
            if not line.startswith("id: "):
                continue
            seen.append(len(seen))
            if len(seen) == 2:
                with api.write() as session:
                    services.tokens.revoke(session, operator.id)
            assert len(seen) < 6, "it goes on"
            api.clock.advance(ASK_S * 0.6)
            api.deliver(dock, {})

    asyncio.run(asyncio.wait_for(read(), 60))
    assert len(seen) >= 2


def test_a_reader_that_leaves_before_the_first_piece_leaves_no_file_open(small_api: FleetApi) -> None:
    api, dock, crop = small_api, DeviceRig("dock-1"), b"a crop"
    digest = hashlib.sha256(crop).hexdigest()
    api.take(dock.bundle(dock.item(decision={"evidence": grant(digest, len(crop))})))
    services = api.application.services
    services.evidence.append("dock-1", digest, 0, crop)
    answer = fetch_evidence("1", services, _operator(api, Role.OPERATOR))
    assert _open(digest) == 1

    async def gone(_: Message) -> None:
        raise OSError("Connection reset by peer")

    async def leave() -> None:
        try:
            await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, _nothing, gone)
        except ClientDisconnect:
            return
        raise AssertionError("it was sent")

    asyncio.run(leave())
    assert _open(digest) == 0


async def _nothing() -> Message:
    raise AssertionError("nothing is read")


def _open(digest: str) -> int:
    """How many descriptors of this process lead to a file of this name."""
    return sum(os.path.realpath(name).endswith(digest) for name in Path("/proc/self/fd").iterdir())
