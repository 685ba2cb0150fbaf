"""Minutes of load on the fleet server: its memory and its descriptors stay flat, and no event is missing."""

import os
import threading
import time
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Process:
    """One process of the server, and what it took over time."""

    process: psutil.Process
    memory: list[tuple[float, float]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What it is: its module, or its program."""
        words = self.process.cmdline()
        return words[2] if words[1:2] == ["-m"] else Path(words[0]).name


def _watch(processes: list[_Process], stop: threading.Event) -> None:
    begun = time.monotonic()
    while not stop.wait(_SAMPLE_S):
        for one in processes:
            one.memory.append((time.monotonic() - begun, one.process.memory_info().rss / 2**20))
            one.descriptors.append(one.process.num_fds())


def _settled(series: list[int]) -> list[int]:
    return series[int(len(series) * _SETTLE) :]


def test_a_server_under_load_stays_as_it_is(tmp_path: Path) -> None:
    stop = threading.Event()
    with running(Server(tmp_path)) as server:
        device = enrol(server, tmp_path / "device", "busy", CONFIGURATION)
        device.outbox.start()
        device.uplink.start()
        client = device.client()
        main = psutil.Process(server.process.pid)
        processes = [_Process(one) for one in (main, *main.children(recursive=True))]
        names = [one.name for one in processes]
        watcher = threading.Thread(target=_watch, args=(processes, stop))
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
    print(
        f"\n{MINUTES:g} min at {sent / (MINUTES * 60):.0f} events/s: {sent} sent, {ledger.delivered} delivered"
    )
    slopes = [slope_per_minute(one.memory, _SETTLE) for one in processes]
    for name, one, (slope, error) in zip(names, processes, slopes, strict=True):
        print(
            f"  {name}: {one.memory[-1][1]:.0f} MiB, {slope:+.3f} +- {error:.3f} MiB/min, "
            f"descriptors {min(_settled(one.descriptors))} to {max(_settled(one.descriptors))}"
        )
    assert ledger.delivered == ledger.accepted == sent
    assert health["events"] == sent
    for slope, error in slopes:
        assert slope <= max(3 * error, 0.2)
    for one in processes:
        assert max(_settled(one.descriptors)) - min(_settled(one.descriptors)) <= 16
