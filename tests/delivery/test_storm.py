"""A broker restarts and a whole fleet comes back: all are served within the plan, at no more than its rate."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from edge_runtime.uplink.backoff import ReconnectSettings
from sim.road import Server, running
from tests.rigs.light_devices import Fleet, enrol_many
from tests.rigs.roads import Stored, broker_pid, children, wait_for

_FLEET = int(os.environ.get("STORM_DEVICES", "300"))
_RATE = 300
"""What one core of a broker can shake hands with in a second; the plan uses half of it."""


@pytest.mark.trial
@pytest.mark.timeout(900)
def test_a_fleet_comes_back_within_its_plan(tmp_path: Path) -> None:
    settings = ReconnectSettings(fleet=_FLEET)
    names = [f"light-{number}" for number in range(_FLEET)]
    with running(Server(tmp_path)) as server:
        contexts = enrol_many(server, names, tmp_path)
        time.sleep(2)  # the broker is told within a quarter of a second; its reload takes some more
        found = asyncio.run(_storm(server, Fleet(server.broker, contexts, settings), settings))
        print(json.dumps(found))
        assert found["served"] == _FLEET
        assert found["densest_second"] <= _RATE
        rows = [Stored.read(server, name) for name in names[:: max(1, _FLEET // 50)]]
        assert all(sum(stored.keys.values()) == 1 for stored in rows)


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


async def _storm(server: Server, fleet: Fleet, settings: ReconnectSettings) -> dict[str, float]:
    await asyncio.wait_for(fleet.start(4 * settings.spread_s), 300)
    await asyncio.sleep(settings.short_s)
    fleet.begin_to_deliver()
    pid = broker_pid(server)
    ingest = psutil.Process(children(server, "fleet_server.ingest")[0].pid)
    ingest_cpu_s, own_cpu_s = _cpu_s(ingest), time.process_time()
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    whole = await fleet.wait_served(settings.spread_s * 4 + 180)
    records = fleet.records
    times = sorted(at - begin for at in records.served.values())
    cpu_s = {
        "devices": time.process_time() - own_cpu_s,
        "ingest": _cpu_s(ingest) - ingest_cpu_s,
        "broker": sum(_cpu_s(found) for found in children(server, "nats-server")),
    }
    await fleet.stop()
    assert wait_for(lambda: [found.pid for found in children(server, "nats-server")] != [pid])
    return {
        "devices": _FLEET,
        "served": len(times),
        "whole": whole,
        "spread_s": round(settings.spread_s, 2),
        "densest_second": records.densest_second(),
        "attempts": len(records.attempts),
        "refused": records.refused,
        "unsubscribed": records.unsubscribed,
        "median_s": round(times[len(times) // 2], 2) if times else 0.0,
        "last_s": round(times[-1], 2) if times else 0.0,
        **{f"cpu_{name}_s": round(used, 2) for name, used in cpu_s.items()},
    }
