"""The whole road against a bare receive loop, in one run.

    python -m tests.bench.bench_road [--rounds N]

R: a process that only receives single events from a broker by paho at QoS 1, per second of its own processor time.
Road: outbox process, uplink process, embedded broker, ingest process, SQLite, receipt, and back to the outbox, all
on this machine: events per second from the first put to the last receipt, and how long one event takes alone.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

from edge_runtime.outbox import OutboxClient
from edge_runtime.protocol import Severity
from sim.road import Device, Server, enrol, running
from tests.bench.bench_ingest import DEVICES, Senders, bare
from tests.rigs.brokers import MosquittoBroker
from tests.rigs.road_events import CONFIGURATION, submissions

EVENTS, PUT, ALONE = 6000, 64, 100


def _delivered(client: OutboxClient) -> int:
    return client.status().ledger.delivered


def flood(client: OutboxClient) -> float:
    """Events per second from the first put to the last receipt."""
    made, before = submissions(EVENTS), _delivered(client)
    began = time.perf_counter()
    for start in range(0, EVENTS, PUT):
        client.put(made[start : start + PUT])
    while _delivered(client) - before < EVENTS:
        time.sleep(0.02)
    return EVENTS / (time.perf_counter() - began)


def alone(client: OutboxClient) -> list[float]:
    """Milliseconds from the put of one event to its receipt, one after another, at the highest severity."""
    took = []
    for one in submissions(ALONE, Severity.CRITICAL):
        before, began = _delivered(client), time.perf_counter()
        client.put([one])
        while _delivered(client) == before:
            time.sleep(0.001)
        took.append((time.perf_counter() - began) * 1000)
    return took


def _received(folder: Path) -> float:
    """R, by a broker that ends with it: mosquitto 2.0.11 goes on taking half a core once a subscriber has left."""
    broker = MosquittoBroker(folder, DEVICES)
    broker.start()
    senders = Senders(broker)
    try:
        return bare(broker, senders)
    finally:
        senders.close()
        broker.stop()


def _ready(device: Device) -> OutboxClient:
    device.outbox.start()
    device.uplink.start()
    client = device.client()
    alone(client)
    flood(client)  # connected, caches warm, and past the ramp with which a new session begins
    return client


def main() -> None:
    """Runs the rounds and prints the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ratios, rates, received, waits = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="bench-road-") as made, contextlib.ExitStack() as stack:
        folder = Path(made)
        server = stack.enter_context(running(Server(folder)))
        device = enrol(server, folder / "device", "bench", CONFIGURATION)
        stack.callback(device.stop)
        client = _ready(device)
        stack.callback(client.close)
        for _ in range(rounds):
            received.append(_received(folder / "bare"))
            rates.append(flood(client))
            ratios.append(rates[-1] / received[-1])
            waits += alone(client)
    p50, p99 = statistics.median(waits), statistics.quantiles(waits, n=100)[98]
    print(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores, {rounds} rounds, medians")
    print(f"bare receive loop, R   {statistics.median(received):>8,.0f} messages/s and core")
    print(
        f"outbox to receipt      {statistics.median(rates):>8,.0f} events/s   "
        f"{statistics.median(ratios):.2f} R (aim 1.0)"
    )
    print(f"one event alone        p50 {p50:.0f} ms   p99 {p99:.0f} ms (aim 150)")


if __name__ == "__main__":
    main()
