"""The server killed before every statement that writes and after every commit: what goes on is the same rollout.

Killed means that nothing after the point happens and the open transaction is undone, as after SIGKILL; some points
are also tried with a real process and the real signal. Devices live on, and a new server goes on from the database.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fleet_server.audit import verify
from fleet_server.rollouts.plan_records import OnFail
from fleet_server.rollouts.states import RolloutState
from fleet_server.storage import Store, open_store
from tests.rigs.databases import DATABASES, migrated_database, migrated_file
from tests.rigs.rollout_fleet import PaperFleet, names, stage

_WRITES = ("INSERT", "UPDATE", "DELETE")


class Killed(BaseException):
    """The server is gone."""


class Killer:
    """Counts points at which a server may be killed, and kills it at one of them.

    Args:
        store: whose statements are counted.
        at: number of the point, from 1; None only counts.
    """

    def __init__(self, store: Store, at: int | None) -> None:
        self.store, self.at, self.points, self.armed = store, at, 0, False
        self.kinds: dict[str, int] = {}  # the last point before each statement, and after a commit
        sa.event.listen(store.engine, "before_cursor_execute", self._statement)

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if self.armed and statement.lstrip().startswith(_WRITES):
            self._point(statement)

    def _point(self, kind: str) -> None:
        self.points += 1
        self.kinds[kind] = self.points
        if self.points == self.at:
            self.armed = False
            raise Killed

    @contextmanager
    def dangerous(self) -> Iterator[None]:
        self.armed = True
        try:
            yield
            self._point("committed")  # and nothing more is done
        finally:
            self.armed = False


def life(fleet: PaperFleet, killer: Killer) -> str:
    """Two good devices, two that revert, one that is away: stopped in the second stage and rolled back."""
    good = fleet.publish(1)
    fleet.publish(2, rollback_to=(good,))
    fleet.enrol(*names(3), labels={"ring": "1"}, runs=(good, 1))
    fleet.enrol("bad-1", "bad-2", runs=(good, 1), fate="reverted")
    fleet.enrol("away", runs=(good, 1), online=False)
    stages = stage(labels={"ring": "1"}, rules={"min_devices": 2}), stage(rules={"max_bad": 2})
    rollout = fleet.run(2, *stages, on_fail=OnFail.ROLLBACK, deadlines={"unreachable_s": 30})
    take = fleet.take

    def dangerously(reports: Any) -> None:
        kept = list(reports)
        try:
            with killer.dangerous():
                take(kept)
        except Killed:
            take(kept)  # the broker was not told that they were taken: it brings them again

    fleet.take = dangerously  # type: ignore[method-assign]
    for _ in range(14):
        fleet.pass_s(6)
        try:
            with killer.dangerous():
                fleet.service.step(fleet.now_ms)
        except Killed:
            fleet.service = fleet.new_service()
        fleet.deliver()
    fleet.take = take  # type: ignore[method-assign]
    fleet.service = fleet.new_service()
    fleet.rounds(4)
    return rollout


def outcome(fleet: PaperFleet, rollout: str) -> dict[str, Any]:
    """What must not depend on where the server was killed."""
    shown = fleet.show(rollout)
    assert shown.state is RolloutState.ROLLED_BACK
    return {
        "members": fleet.states(rollout),
        "stages": [one.state for one in shown.stages_view],
        "rollback": shown.rollback,
        "reason": shown.reason,
        "asked": [
            (row.device, row.seq, row.action, row.state)
            for row in fleet.rows("SELECT device, seq, action, state FROM assignments ORDER BY device, seq")
        ],
        "runs": {name: device.running.counter for name, device in fleet.devices.items()},
        "seen": {name: [a.seq for a in device.seen] for name, device in fleet.devices.items()},
    }


def sound(fleet: PaperFleet) -> None:
    """What holds after every life."""
    for name, device in fleet.devices.items():
        assert device.unsettled == {}, name
        assert [a.seq for a in device.seen] == sorted({a.seq for a in device.seen})
    ended = fleet.rows("SELECT device, seq, terminal_no, live FROM assignments")
    assert all(row.terminal_no is not None and not row.live for row in ended)
    twice = "SELECT device FROM assignments GROUP BY rollout, device, action, round HAVING count(*) > 1"
    assert fleet.rows(twice) == []
    with fleet.store.read() as session:
        assert verify(session).whole
    acts = [action for action in fleet.actions() if not action.endswith((".soaking", ".open"))]
    assert len(acts) == len(set(acts)), acts


@contextmanager
def a_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """In memory where that is possible: thousands of commits, and no power cut."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = tempfile.mkdtemp(prefix="fleet-killed-", dir=memory)
    store = open_store(migrated_file(Path(folder)))
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(folder)


def lived(store: Store, at: int | None) -> tuple[dict[str, Any], Killer]:
    killer = Killer(store, at)
    fleet = PaperFleet(store)
    rollout = life(fleet, killer)
    sound(fleet)
    return outcome(fleet, rollout), killer


def test_killed_before_each_kind_of_statement_it_ends_the_same(request: pytest.FixtureRequest) -> None:
    with a_store(request) as store:
        whole, counted = lived(store, None)
    assert counted.points > 100
    assert len(counted.kinds) > 25
    for at in sorted(counted.kinds.values()):
        with a_store(request) as store:
            assert lived(store, at)[0] == whole, f"killed at point {at}"


@pytest.mark.trial
@pytest.mark.parametrize("kind", DATABASES)
def test_killed_at_every_point_it_ends_the_same(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    def run(at: int | None) -> tuple[dict[str, Any], Killer]:
        if kind == "sqlite":
            with a_store(request) as store:
                return lived(store, at)
        store = open_store(migrated_database(request, tmp_path, kind))
        try:
            return lived(store, at)
        finally:
            store.close()

    whole, counted = run(None)
    print(f"\n{counted.points} points on {kind}")
    for at in range(1, counted.points + 1):
        assert run(at)[0] == whole, f"killed at point {at}"


_CHILD = """
import os, signal, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
import sqlalchemy as sa
from securesystemslib.signer import CryptoSigner
from fleet_server.storage import open_store
from tests.rigs.rollout_fleet import PaperFleet
url, now_ms, at, key = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
fleet = PaperFleet(open_store(url), now_ms=now_ms)
fleet.signer = CryptoSigner(Ed25519PrivateKey.from_private_bytes(key))
seen = 0
def before(connection, cursor, statement, *rest):
    global seen
    if statement.lstrip().startswith(("INSERT", "UPDATE", "DELETE")):
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
sa.event.listen(fleet.store.engine, "before_cursor_execute", before)
fleet.service.step(now_ms)
"""


@pytest.mark.parametrize("at", [2, 14])
def test_killed_by_the_real_signal_a_new_server_goes_on(tmp_path: Path, at: int) -> None:
    url = migrated_file(tmp_path)
    store = open_store(url)
    fleet = PaperFleet(store)
    fleet.publish(1)
    fleet.enrol(*names(4))
    rollout = fleet.run(1)
    fleet.pass_s(1)
    command = [sys.executable, "-c", _CHILD, url, str(fleet.now_ms), str(at), _raw(fleet).hex()]
    child = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    fleet.deliver()
    fleet.rounds(5, 10)
    assert fleet.show(rollout).state is RolloutState.COMPLETED
    assert [len(device.seen) for device in fleet.devices.values()] == [1] * 4
    assert len(fleet.rows("SELECT * FROM assignments")) == 4
    store.close()


def _raw(fleet: PaperFleet) -> bytes:
    key = load_pem_private_key(fleet.signer.private_bytes, None)
    assert isinstance(key, Ed25519PrivateKey)
    return key.private_bytes_raw()
