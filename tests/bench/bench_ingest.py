"""Ingest against a bare receive loop, and the commit against a bare append with fdatasync, interleaved in one run.

    python -m tests.bench.bench_ingest [--rounds N]

R: a process that only receives single events from mosquitto by paho at QoS 1, and does nothing with them.
Ingest: the real process, bundles of 20 from 10 devices, every event validated, committed and receipted on SQLite.
Both by TLS through the same broker, per second of their own processor time. Aim: at least 2 R.
F: append of 316 bytes and fdatasync, one after another. Commit: 100 events with UUIDv7 keys in one transaction of
ingest, without validation. Aim: at least 20 F, which was set with events of 282 bytes. sqlite3 alone: 100 keys and
bodies in one transaction, with one unique index and nothing else. Ours shall reach half of what that does with
bodies as long as ours (docs/decisions/0203).
"""

import argparse
import contextlib
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import paho.mqtt.client as mqtt
import psutil

from edge_runtime.clock import SystemClock
from edge_runtime.collector import collect_rarely
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.ids import uuid7
from fleet_server.ingest import Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.storage import Store, open_store, upgrade
from tests.rigs.brokers import Broker, MosquittoBroker
from tests.rigs.deliveries import WALL_MS, DeviceRig
from tests.rigs.ingest_process import IngestProcess

DEVICES = tuple(f"dev-{number}" for number in range(10))
BUNDLE, EVENTS, SINGLES = 20, 12_000, 3000
SMALL = 282
"""Bytes of an event when the aim was set."""

_RECEIVER = """
import resource, ssl, sys
import paho.mqtt.client as mqtt
port, authority, certificate, key, wanted = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.load_cert_chain(certificate, key)
seen = 0
def on_message(client, userdata, message):
    global seen
    seen += 1
    if seen == 1:
        on_message.began = resource.getrusage(resource.RUSAGE_SELF)
    if seen == int(wanted):
        client.disconnect()
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="bare", protocol=5)
client.tls_set_context(context)
client.on_message = on_message
client.on_connect = lambda client, *_: client.subscribe("fleet/v1/+/up/#", 1)
client.on_subscribe = lambda *_: print("ready", flush=True)
client.connect("localhost", int(port), 60)
client.loop_forever()
ended = resource.getrusage(resource.RUSAGE_SELF)
print(ended.ru_utime + ended.ru_stime - on_message.began.ru_utime - on_message.began.ru_stime)
"""


class Senders:
    """One connection for each device; paho's small windows are its fast ones."""

    def __init__(self, broker: Broker) -> None:
        self._clients = {name: broker.client(name) for name in DEVICES}
        self.settled = dict.fromkeys(DEVICES, 0)
        self._done = threading.Condition()
        for name, client in self._clients.items():
            client.max_inflight_messages_set(20)
            client.on_message = self._receipt
            client.on_connect = lambda c, _u, _f, _r, _p, name=name: c.subscribe(
                f"fleet/v1/{name}/down/rcpt", 1
            )
            client.connect(broker.host, broker.port, 60)
            client.loop_start()

    def publish(self, name: str, topic: str, payload: bytes) -> mqtt.MQTTMessageInfo:
        return self._clients[name].publish(topic, payload, qos=1)

    def wait(self, numbers: dict[str, int]) -> None:
        """Until a receipt settled these numbers."""
        with self._done:
            done = self._done.wait_for(
                lambda: all(self.settled[name] >= high for name, high in numbers.items()), 120
            )
        if not done:
            sys.exit("error: ingest settled nothing more for 120 s")

    def close(self) -> None:
        for client in self._clients.values():
            client.disconnect()
            client.loop_stop()

    def _receipt(self, _client: object, _userdata: object, message: mqtt.MQTTMessage) -> None:
        name = message.topic.split("/")[2]
        high = Receipt.decode(bytes(message.payload)).high
        with self._done:
            self.settled[name] = max(self.settled[name], high)
            self._done.notify()


def _keyed(rig: DeviceRig, count: int) -> list[tuple[str, bytes]]:
    """Bundles of new events with keys in the order of time."""
    clock = SystemClock()
    bundles = []
    for _ in range(count // BUNDLE):
        items = [
            rig.item(key=uuid.UUID(uuid7(clock.wall().unix_ns)).bytes, left_ms=3_600_000)
            for _ in range(BUNDLE)
        ]
        bundles.append(rig.bundle(*items))
    return bundles


def bare(broker: Broker, senders: Senders) -> float:
    """Messages per second of processor time of a bare receive loop."""
    mine = broker.parties["fleet-ingest"]
    files = [str(path) for path in (mine.authority, mine.certificate, mine.key)]
    command = [sys.executable, "-c", _RECEIVER, str(broker.port), *files, str(SINGLES)]
    receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    receiver.stdout.readline()
    payload = os.urandom(316)
    for number in range(SINGLES):
        name = DEVICES[number % len(DEVICES)]
        senders.publish(name, f"fleet/v1/{name}/up/ev/0", payload)
    seconds = float(receiver.communicate(timeout=120)[0])
    return (SINGLES - 1) / seconds


def ingest(process: IngestProcess, senders: Senders, rigs: list[DeviceRig]) -> tuple[float, float]:
    """Events per second of processor time, and per second."""
    prepared = [(rig, _keyed(rig, EVENTS // len(rigs))) for rig in rigs]
    times = psutil.Process(process.pid).cpu_times()
    began, busy = time.perf_counter(), times.user + times.system
    for bundles in zip(*(bundles for _, bundles in prepared), strict=True):
        for (rig, _), (topic, payload) in zip(prepared, bundles, strict=True):
            senders.publish(rig.name, topic, payload)
    senders.wait({rig.name: rig.next - 1 for rig in rigs})
    took = time.perf_counter() - began
    times = psutil.Process(process.pid).cpu_times()
    return EVENTS / (times.user + times.system - busy), EVENTS / took


def append(folder: Path, count: int = 150) -> float:
    """F: appends of 316 bytes with fdatasync, per second."""
    block = os.urandom(316)
    descriptor = os.open(folder / "append", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    began = time.perf_counter()
    for _ in range(count):
        os.write(descriptor, block)
        os.fdatasync(descriptor)
    rate = count / (time.perf_counter() - began)
    os.close(descriptor)
    return rate


def commit(store: Store, rig: DeviceRig, batches: int = 10) -> float:
    """Events per second that ingest commits in transactions of 100, all its tables and indexes included."""
    now = Now(0, WALL_MS)
    messages = _keyed(rig, 100 * batches)
    parcels = [inspect(Arrival(topic, payload, 0), Rules(), now) for topic, payload in messages]
    committer = Committer(store, Limits())
    began = time.perf_counter()
    for start in range(0, len(parcels), 5):
        committer.commit(parcels[start : start + 5], WALL_MS)
    return 100 * batches / (time.perf_counter() - began)


def bare_commit(folder: Path, length: int, batches: int = 10) -> float:
    """Events per second that sqlite3 alone commits in transactions of 100, as durably as ingest does."""
    keys = [uuid.UUID(uuid7(SystemClock().wall().unix_ns)).bytes for _ in range(100 * batches)]
    rows = [(bytearray(key), WALL_MS, bytearray(os.urandom(length))) for key in keys]
    path = folder / f"bare-{length}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, key BLOB UNIQUE, received_ms, body BLOB)"
    )
    began = time.perf_counter()
    for start in range(0, len(rows), 100):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO events (key, received_ms, body) VALUES (?, ?, ?)", rows[start : start + 100]
        )
        connection.execute("COMMIT")
    took = time.perf_counter() - began
    connection.close()
    return len(rows) / took


def _body_bytes(rig: DeviceRig) -> int:
    """How long the body of an event is."""
    return len(rig.item(key=uuid.uuid4().bytes, left_ms=1).body)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[tuple[Broker, IngestProcess]]:
    broker = MosquittoBroker(folder / "broker", DEVICES)
    process = IngestProcess(folder / "data", broker, f"sqlite:///{folder}/fleet.db")
    try:
        broker.start()
        yield broker, process
    finally:
        process.kill()
        broker.stop()


def main() -> None:
    """Runs the rounds and prints the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    collect_rarely()  # as the process of ingest
    rows = []
    rigs = [DeviceRig(name) for name in DEVICES]
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as made:
        folder = Path(made)
        length = _body_bytes(DeviceRig())
        store = open_store(f"sqlite:///{folder / 'commit.db'}")
        upgrade(store)
        with _running(folder) as (broker, process):
            senders = Senders(broker)
            for _ in range(rounds):
                received = bare(broker, senders)  # ingest is not running: a share of the broker would be its
                process.start()
                per_core, per_second = ingest(process, senders, rigs)
                if process.stop():
                    sys.exit(f"error: ingest failed:\n{process.said()}")
                syncs = append(folder)
                commits = [commit(store, DeviceRig())]
                commits += [bare_commit(folder, each) for each in (length, SMALL)]
                rows.append((received, per_core, per_second, syncs, *commits))
            senders.close()
        store.close()
    _print(rows, length)


def _print(rows: Sequence[tuple[float, ...]], length: int) -> None:
    print(
        f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores, {len(rows)} rounds, medians of each round"
    )
    ratio = statistics.median(row[1] / row[0] for row in rows)
    print(
        f"bare receive loop, R         {statistics.median(row[0] for row in rows):>9,.0f} messages/s and core"
    )
    print(
        f"ingest, bundles of {BUNDLE}        {statistics.median(row[1] for row in rows):>9,.0f} events/s and core",
        end="",
    )
    print(f"   {ratio:.2f} R (aim 2)   {statistics.median(row[2] for row in rows):,.0f} events/s")
    ratio = statistics.median(row[4] / row[3] for row in rows)
    print(f"append + fdatasync, F        {statistics.median(row[3] for row in rows):>9,.0f} /s")
    print(f"commit of 100 events         {statistics.median(row[4] for row in rows):>9,.0f} events/s", end="")
    print(f"            {ratio:.1f} F (aim 20)")
    ratio = statistics.median(row[4] / row[5] for row in rows)
    print(f"  of what sqlite3 alone does with bodies of {length} bytes: {ratio:.2f} (aim 0.5)")
    for place, size in ((5, length), (6, SMALL)):
        ratio = statistics.median(row[place] / row[3] for row in rows)
        print(
            f"sqlite3 alone, {size:>4} bytes    {statistics.median(row[place] for row in rows):>9,.0f} events/s",
            end="",
        )
        print(f"            {ratio:.1f} F")


if __name__ == "__main__":
    main()
