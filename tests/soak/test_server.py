"""Minutes of load on the fleet server: its memory and its descriptors stay flat, and no event is missing."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from sim.road import Server, enrol, running
from tests.rigs.road_events import CONFIGURATION, submissions
from tests.rigs.slope import slope_per_minute

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("EDGE_SOAK_MINUTES", "10"))
RATE = 400
"""Events a second, in bundles as they come."""

_SAMPLE_S = 2.0
_SETTLE = 0.3
"""The first part is left out of the slope: caches, pools and allocator arenas are still filling."""


def _watch(pids: list[int], stop: threading.Event, samples: list[tuple[float, float, int]]) -> None:
    processes, begun = [psutil.Process(pid) for pid in pids], time.monotonic()
    while not stop.wait(_SAMPLE_S):
        memory = sum(process.memory_info().rss for process in processes) / 2**20
        samples.append((time.monotonic() - begun, memory, sum(process.num_fds() for process in processes)))


def test_a_server_under_load_stays_as_it_is(tmp_path: Path) -> None:
    samples: list[tuple[float, float, int]] = []
    stop = threading.Event()
    with running(Server(tmp_path)) as server:
        device = enrol(server, tmp_path / "device", "busy", CONFIGURATION)
        device.outbox.start()
        device.uplink.start()
        client = device.client()
        pids = [server.process.pid]
        pids += [child.pid for child in psutil.Process(server.process.pid).children(recursive=True)]
        watcher = threading.Thread(target=_watch, args=(pids, stop, samples))
        watcher.start()
        begun, sent = time.monotonic(), 0
        try:
            while (elapsed := time.monotonic() - begun) < MINUTES * 60:
                due = min(int(elapsed * RATE) - sent, 64)
                if due > 0:
                    results = client.put(submissions(due))
                    assert all(result.accepted for result in results)
                    sent += due
                else:
                    time.sleep(0.02)
            deadline = time.monotonic() + 60
            while client.status().ledger.delivered < sent and time.monotonic() < deadline:
                time.sleep(0.1)
            ledger = client.status().ledger
        finally:
            stop.set()
            watcher.join()
            client.close()
            device.stop()
        health = server.fleet("health")
    slope, error = slope_per_minute([sample[:2] for sample in samples], _SETTLE)
    descriptors = [sample[2] for sample in samples[int(len(samples) * _SETTLE) :]]
    print(
        f"\n{MINUTES:g} min at {sent / (MINUTES * 60):.0f} events/s: {sent} sent, {ledger.delivered} delivered; "
        f"memory of {len(pids)} processes {samples[-1][1]:.0f} MiB, {slope:+.3f} +- {error:.3f} MiB/min; "
        f"descriptors {min(descriptors)} to {max(descriptors)}"
    )
    assert ledger.delivered == ledger.accepted == sent
    assert health["events"] == sent
    assert slope <= max(3 * error, 0.5)
    assert max(descriptors) - min(descriptors) <= 16
