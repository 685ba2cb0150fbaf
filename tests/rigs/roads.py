"""Whole roads for delivery tests, and the sums that must come out on both sides whatever happened on the way.

COMBINATIONS runs a test on every broker and database; two of the four are in the default selection.
"""

import contextlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import select

from edge_runtime import identity
from edge_runtime.clock import SystemClock
from edge_runtime.outbox import OutboxStatus, OutboxUnavailable, Submission
from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.enrolment import EnrolmentToken
from edge_runtime.state import StateDirectory
from fleet_server.audit import Audit
from fleet_server.authority import CertificateAuthority
from fleet_server.devices import DeviceRegistry
from fleet_server.operators.balance import EpochBalance
from fleet_server.operators.status import DeviceStatus, balance, devices
from fleet_server.paths import ServerPaths
from fleet_server.storage import open_store
from fleet_server.storage.event_tables import EpochRow, EventRow
from sim.cable import Cable
from sim.mosquitto import Mosquitto
from sim.road import Device, Server, command
from tests.rigs.databases import new_database
from tests.rigs.submitter import Journal

COMBINATIONS = (
    pytest.param(("nats", "sqlite"), id="nats-sqlite"),
    pytest.param(("mosquitto", "postgresql"), id="mosquitto-postgresql"),
    pytest.param(("nats", "postgresql"), id="nats-postgresql", marks=pytest.mark.trial),
    pytest.param(("mosquitto", "sqlite"), id="mosquitto-sqlite", marks=pytest.mark.trial),
)

ONE = (
    COMBINATIONS[0],
    *(pytest.param(*kind.values, id=kind.id, marks=pytest.mark.trial) for kind in COMBINATIONS[1:]),
)
"""The same for what hardly depends on broker and database: one of the four is in the default selection."""

PACE: dict[str, Any] = {
    "base_s": 0.2,
    "cap_s": 2.0,
    "short_s": 0.05,
    "stable_s": 5.0,
    "quarrel_s": 2.0,
    "retry_first_s": 1.0,
    "retry_cap_s": 4.0,
    "silence_s": 5.0,
    "sync_retry_s": 0.5,
    "sync_cap_s": 2.0,
    "report_period_s": 0.3,
    "outbox_pause_s": 0.2,
    "connect_timeout_s": 5.0,
    "health_period_s": 5.0,
}
"""An uplink whose waits are short, so that a test sees many of them."""

LIMITS: dict[str, Any] = {"expiry_period_s": 0.2, "ballast_bytes": 65_536}


def make_server(
    request: pytest.FixtureRequest,
    folder: Path,
    kind: tuple[str, str],
    *,
    mosquitto_limits: dict[str, int] | None = None,
    **options: Any,
) -> Server:
    """A server of a combination; nothing runs yet."""
    broker, database = kind
    url = None if database == "sqlite" else new_database(request, folder, database)
    mosquitto = Mosquitto(folder / "mosquitto", mosquitto_limits) if broker == "mosquitto" else None
    return Server(folder, database=url, mosquitto=mosquitto, **options)


def broker_pid(server: Server) -> int:
    """Of its broker's process."""
    if server.mosquitto is not None:
        return server.mosquitto.pid
    return child(server, "nats-server").pid


def child(server: Server, word: str) -> psutil.Process:
    """One child of the server with a word in its command line."""
    found = children(server, word)
    assert found, f"the server has no child {word}"
    return found[0]


def children(server: Server, word: str = "") -> list[psutil.Process]:
    """Children of the server with a word in their command line."""
    return server.family(word)


def wait_for(condition: Callable[[], object], timeout: float = 30.0) -> bool:
    """Whether a callable became true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def a_device(
    server: Server,
    folder: Path,
    name: str,
    *,
    limits: dict[str, Any] | None = None,
    prepare: Callable[[Device], None] = lambda _: None,
    **pace: Any,
) -> Iterator[Device]:
    """An enrolled device that runs, and is gone at the end; `prepare` sees it before it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    state = StateDirectory(folder / "state")
    _enrol(server, name, state)
    device = Device(
        name,
        state,
        folder / "device.yaml",
        Cable(server.broker),
        {**LIMITS, **(limits or {})},
        {**PACE, **pace},
    )
    try:
        prepare(device)
        for part in (device.outbox, device.uplink):  # both import at the same time
            part.spawn()
        for part in (device.outbox, device.uplink):
            part.ready()
        yield device
    finally:
        device.stop()


def _enrol(server: Server, name: str, state: StateDirectory) -> None:
    """Enrol over the server's real HTTPS. Two commands in processes of their own take two seconds for the same."""
    paths, clock = ServerPaths(server.data), SystemClock()
    store = open_store(server.database)
    try:
        authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, clock)
        registry = DeviceRegistry(store, authority, clock, Audit(clock).record)
        token = registry.invite("alice", device=name).token
    finally:
        store.close()
    answer = identity.enrol(server.url, EnrolmentToken.parse(token), state)
    assert answer.device == name


def put(device: Device, events: Sequence[Submission]) -> list[bytes]:
    """Hand over; the keys of what was accepted, which is all of it."""
    client = device.client()
    try:
        for start in range(0, len(events), 256):
            assert all(result.accepted for result in client.put(events[start : start + 256]))
    finally:
        client.close()
    return [event.key for event in events]


def status(device: Device) -> OutboxStatus | None:
    """Of its outbox; None while that is away."""
    client = device.client()
    try:
        return client.status()
    except OutboxUnavailable:
        return None
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class Stored:
    """What a server's database has of one device.

    Attributes:
        keys: of its rows.
        revisions: (event, revision) of each row.
        epochs: by epoch, up to where every number is settled.
        arrivals: when each row was committed, milliseconds, in order.
    """

    keys: Counter[bytes]
    revisions: Counter[tuple[str, int]]
    epochs: dict[str, int]
    arrivals: tuple[int, ...]

    def in_first_second(self, after: int) -> int:
        """Rows within a second of the first one that came after so many others."""
        rest = self.arrivals[after:]
        return sum(at < rest[0] + 1000 for at in rest)

    @classmethod
    def read(cls, server: Server, device: str) -> "Stored":
        """As it is now."""
        store = open_store(server.database)
        try:
            with store.read() as session:
                rows = session.execute(
                    select(EventRow.key, EventRow.event, EventRow.revision, EventRow.received_ms).where(
                        EventRow.device == device
                    )
                ).all()
                epochs = session.execute(
                    select(EpochRow.epoch, EpochRow.high).where(EpochRow.device == device)
                ).all()
        finally:
            store.close()
        return cls(
            Counter(bytes(row.key) for row in rows),
            Counter((row.event, row.revision) for row in rows),
            {row.epoch: row.high for row in epochs},
            tuple(sorted(row.received_ms for row in rows)),
        )


def health(server: Server) -> dict[str, Any]:
    """What `fleet health --json` prints; its exit code says that something is wrong, and so does what it prints."""
    done = subprocess.run(
        command("fleet", "health", "--data", str(server.data), "--json"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def presence(server: Server, device: str) -> DeviceStatus:
    """What the server knows of a device."""
    store = open_store(server.database)
    try:
        with store.read() as session:
            return devices(session, only=device)[0]
    finally:
        store.close()


def settled(server: Server, device: Device, timeout: float = 60.0) -> OutboxStatus:
    """Wait until the queue is empty and the server has closed every gap of it; the outbox's status then."""
    last: list[OutboxStatus] = []

    def done() -> bool:
        found = status(device)
        if found is None or found.ledger.queued:
            return False
        last[:] = [found]
        return True

    assert wait_for(done, timeout), f"still queued: {status(device)}\n{logs(server, device)}"
    accepted = _next_number(device) - 1
    epoch = last[0].epoch
    closed = wait_for(lambda: Stored.read(server, device.name).epochs.get(epoch, 0) >= accepted, timeout)
    stored = Stored.read(server, device.name)
    assert closed, f"{accepted} numbers, closed up to {stored.epochs}\n{last[0]}\n{logs(server, device)}"
    found = status(device)
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class Sums:
    """What both sides say once everything is settled.

    Attributes:
        device: the outbox's status.
        stored: rows of the server.
        balance: of each of its outbox files, old to new.
    """

    device: OutboxStatus
    stored: Stored
    balance: list[EpochBalance]


def assert_sums(
    server: Server,
    device: Device,
    acknowledged: Sequence[bytes] | frozenset[bytes],
    tried: frozenset[bytes] = frozenset(),
    *,
    ends: bool = True,
) -> Sums:
    """Hold both sides against each other once everything is settled.

    Every acknowledged event is a row or has another counted fate, nothing is there twice, nothing came from
    nowhere, and neither side has an event that it cannot account for.

    Args:
        server: running.
        device: running.
        acknowledged: keys that the outbox answered for.
        tried: keys that it may have beside them.
        ends: end the uplink, so that it reports its last ledger, and ask `fleet health` as an operator would; then
            the uplink is started again.
    """
    found = settled(server, device)
    if ends:
        _assert_ends(server, device, found.ledger)
    ledger, stored, known = found.ledger, Stored.read(server, device.name), set(acknowledged)
    given_up = ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
    assert ledger.balances
    assert len(known) <= ledger.accepted <= len(known | tried)
    assert max(stored.keys.values(), default=0) <= 1, "stored twice by key"
    assert max(stored.revisions.values(), default=0) <= 1, "stored twice by event and revision"
    missing, strangers = known - set(stored.keys), set(stored.keys) - known - tried
    assert len(missing) <= given_up, (
        f"{len(missing)} acknowledged events are nowhere, {given_up} were given up"
    )
    assert not strangers, f"{len(strangers)} rows that nobody submitted"
    assert ledger.delivered == len(stored.keys), (ledger, len(stored.keys))
    books = _books(server, device.name)
    for line in books:
        assert (line.unexplained, line.waiting, line.missing) == (0, 0, 0), line
    return Sums(found, stored, books)


def _assert_ends(server: Server, device: Device, ledger: Ledger) -> None:
    device.uplink.stop()
    try:
        reported = wait_for(lambda: _books(server, device.name)[-1].ledger == ledger, 15)
        seen = health(server)
    finally:
        device.uplink.start()
    assert reported, f"{ledger}\n{seen['balance']}"
    assert seen["ready"]["ready"], seen["ready"]
    assert seen["unexplained"] == 0, seen["balance"]


def assert_journal(server: Server, device: Device, journal: Path) -> Sums:
    """The same for what a submitter wrote down."""
    settled(server, device)
    found = Journal.read(journal)
    assert found.acknowledged, "nothing was submitted"
    return assert_sums(server, device, found.acknowledged, found.tried)


def logs(server: Server, device: Device) -> str:
    """The last words of everybody, for a failure's text."""
    parts = [server.process.log, device.uplink.log, device.outbox.log]
    return "\n".join(f"--- {path.name}\n{_tail(path)}" for path in parts)


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-1500:] if path.exists() else ""


def _next_number(device: Device) -> int:
    client = device.client()
    try:
        return client.sync_point().next
    finally:
        client.close()


def _books(server: Server, device: str) -> list[EpochBalance]:
    """The balance of each of its outbox files, as the server would answer."""
    store = open_store(server.database)
    try:
        with store.read() as session:
            return balance(session, device)
    finally:
        store.close()
