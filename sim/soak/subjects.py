"""The processes of a server and of a device under the names that their budgets have."""

import contextlib
from collections.abc import Mapping
from typing import Any

from sim.process import RoadError
from sim.road import Server

_SERVER = {"ingest": "fleet_server.ingest", "nats-server": "nats-server"}


def of_server(server: Server) -> dict[str, int]:
    """Process ids of a server by name; of one that is just being started again, those that are there."""
    found: dict[str, int] = {}
    with contextlib.suppress(RoadError):
        found["fleet serve"] = server.process.pid
        for name, word in _SERVER.items():
            for process in server.family(word)[:1]:
                found[name] = process.pid
    return found


def of_device(guard: int, status: Mapping[str, Any] | None) -> dict[str, int]:
    """Process ids of a device.

    Args:
        guard: which `edge-runtime run` became.
        status: of the guard; None while it does not answer.
    """
    rows = (status or {}).get("workers", ())
    return {"guard": guard, **{row["name"]: row["pid"] for row in rows if row["pid"]}}
