"""Minutes of load on the fleet server: each of its processes keeps its budget, and no event is missing."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.road import Server, enrol, running
from sim.soak import SoakRun, over
from sim.soak.subjects import of_server
from tests.rigs.road_events import CONFIGURATION, submissions

pytestmark = pytest.mark.soak

RATE = 400
"""Events a second, in bundles as they come."""


def test_a_server_under_load_stays_as_it_is(
    tmp_path: Path, soak: Callable[[str], SoakRun], minutes: float
) -> None:
    run = soak("server")
    with running(Server(tmp_path)) as server:
        device = enrol(server, tmp_path / "device", "busy", CONFIGURATION)
        device.start()
        client = device.client()

        def processes() -> dict[str, int]:
            return {**of_server(server), "outbox": device.outbox.pid, "uplink": device.uplink.pid}

        logs = {"fleet serve": server.process.log, "outbox": device.outbox.log, "uplink": device.uplink.log}
        sent = 0
        try:
            with run.watching(processes, logs):
                begun = time.monotonic()
                while (elapsed := time.monotonic() - begun) < minutes * 60:
                    due = min(int(elapsed * RATE) - sent, 64)
                    if due > 0:
                        assert all(result.accepted for result in client.put(submissions(due)))
                        sent += due
                    else:
                        time.sleep(0.02)
            deadline = time.monotonic() + 60
            while client.status().ledger.delivered < sent and time.monotonic() < deadline:
                time.sleep(0.1)
            ledger = client.status().ledger
        finally:
            client.close()
            device.stop()
        health = server.fleet("health")
    lines = run.finish(minutes=minutes, sent=sent, delivered=ledger.delivered)
    assert ledger.delivered == ledger.accepted == sent
    assert health["events"] == sent
    assert not over(lines)
