"""A rollout by the command line against a real `fleet serve`: keys, broker, ingest and signatures on both ways.

Devices here are real in all that a server can see; what a device does with a release is tested where devices are.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import Key

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.update import ASSIGNMENT_TYPE, SETTLED_TYPE, Assignment, Settled
from edge_runtime.protocol.update_wire import Desired
from fleet_server.audit import Audit
from fleet_server.cli.main import run
from fleet_server.operators import Role
from fleet_server.operators.tokens import TokenBook
from fleet_server.paths import ServerPaths
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.settings import ReleaseSettings
from fleet_server.storage import open_store
from tests.rigs.brokers import Recorder
from tests.rigs.fleet_server import FleetServer, RealDevice
from tests.rigs.release_parties import CHECKS, SignedFleet, small_package
from tests.rigs.state_reports import key_in, message, sealed, state_report

FACTS = {"architecture": "aarch64", "runtime": "1.0.0", "memory_mb": 8000}


def wait_for(condition: Any, within_s: float = 30.0) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.05)
    return found


class Device:
    """An enrolled device with a session at the broker, which says of an assignment what it is told to say."""

    def __init__(self, real: RealDevice, session: Recorder, director: Key) -> None:
        self._real, self._session, self._director = real, session, director
        self._key, self._number = key_in(real.credentials.key), 0
        assert session.subscribe(str(Topic(real.name, Channel.DESIRED)))

    def say(self, **said: Any) -> None:
        self._number += 1
        now_ms = SystemClock().wall().unix_ns // NS_PER_MS
        values = {"slot": "detector", "facts": FACTS, "at_ms": now_ms, **said}
        report = state_report(self._real.name, self._number, **values)
        assert self._session.publish(*message(self._real.name, sealed(report, self._key)))

    def asked(self) -> Assignment:
        """The assignment that the director signed for it."""
        assert wait_for(lambda: self._desired().assignments)
        envelope = read_envelope(self._desired().assignments[0], ASSIGNMENT_TYPE)
        envelope.verify([self._director], 1)
        return record_in(envelope, Assignment)

    def settled(self) -> tuple[int, ...]:
        sealed = self._desired().settled
        if sealed is None:
            return ()
        envelope = read_envelope(sealed, SETTLED_TYPE)
        envelope.verify([self._director], 1)
        return tuple(end.seq for end in record_in(envelope, Settled).ends)

    def _desired(self) -> Desired:
        bodies = [body for _, body in self._session.messages if body]
        return Desired.decode(bodies[-1]) if bodies else Desired(device=self._real.name)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FleetServer]:
    with FleetServer(tmp_path / "data") as started:
        yield started


def tokens(server: FleetServer, folder: Path) -> dict[str, list[str]]:
    store = open_store(f"sqlite:///{server.directory / 'fleet.db'}")
    book, found = TokenBook(SystemClock()), {}
    with store.write() as session:
        for name, role in (("anna", Role.OPERATOR), ("ben", Role.APPROVER)):
            file = folder / f"{name}.token"
            file.write_text(book.create(session, name, role)[1])
            found[name] = ["--server", server.url, "--token-file", str(file), "--ca", str(server.authority)]
    store.close()
    return found


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_a_release_goes_to_one_device_and_its_verdict_is_the_exit_code(
    server: FleetServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SystemClock()
    store = open_store(f"sqlite:///{server.directory / 'fleet.db'}")
    settings = ReleaseSettings(keep_free_bytes=0)
    paths = ServerPaths(server.directory)
    desk = ReleaseDesk(paths, store, settings, audit=Audit(clock), clock=clock, checks=CHECKS)
    fleet = SignedFleet.begin(tmp_path / "keys", store, desk=desk)
    release = fleet.publish(small_package(tmp_path / "package"))
    (director,) = fleet.trusted().keys("director").values()
    people = tokens(server, tmp_path)

    def fleet_command(person: str, *words: str) -> tuple[int, str]:
        code = run([*words, *people[person]])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        return code, shown.out or shown.err

    with contextlib.ExitStack() as stack:
        devices = {}
        for name in ("dock-1", "dock-2"):
            real = RealDevice.enrol(server, name)
            session = stack.enter_context(real.connected())
            assert session.publish(*real.rig.presence(1))
            devices[name] = Device(real, session, director)
            devices[name].say(seq=0, state=None)
        plan = ("--release", "/".join(release.target.split("/")[:3]), "--slot", "detector", "--stages", "100")
        rules = ("--min-devices", "2", "--soak", "1s", "--max-bad-share", "50%")
        wait_for(lambda: "2 would get it" in fleet_command("anna", "rollout", "plan", *plan, *rules)[1])
        code, said = fleet_command("anna", "rollout", "create", *plan, *rules)
        assert (code, said) == (0, "r1\n")
        assert fleet_command("anna", "rollout", "status", "r1")[0] == 11
        assert fleet_command("ben", "rollout", "approve", "r1")[0] == 0
        assert fleet_command("anna", "rollout", "start", "r1")[0] == 0

        good, full = devices["dock-1"], devices["dock-2"]
        assert (good.asked().sha256, good.asked().rollout) == (release.sha256, "r1")
        about = {"seq": good.asked().seq, "rollout": "r1"}
        good.say(**about, state="probation")
        wait_for(lambda: "probation, since" in fleet_command("anna", "rollout", "explain", "dock-1")[1])
        assert fleet_command("anna", "rollout", "explain", "dock-1")[0] == 10
        running = {"sha256": release.sha256, "counter": release.counter}
        good.say(**about, state="healthy", terminal=True, left="updated", running=running)
        lacking = {"state": "refused", "code": "no-space", "text": "3 MB are free and 7 are needed"}
        full.say(seq=full.asked().seq, rollout="r1", terminal=True, left="unchanged", **lacking)

        code, said = fleet_command("anna", "rollout", "status", "r1", "--watch")
        assert code == 0, said
        assert said.splitlines()[-1].startswith("r1 completed stage 1 of 1: 1 healthy, 1 refused")
        assert fleet_command("anna", "rollout", "explain", "dock-1")[0] == 0
        code, said = fleet_command("anna", "rollout", "explain", "dock-2")
        assert code == 21
        assert "✗ refused, and left as it was (no-space): 3 MB are free and 7 are needed" in said
        assert "free space on the device's disk" in said
        assert wait_for(good.settled) == (about["seq"],)
        code, said = fleet_command("anna", "device", "history", "dock-2")
        assert said.splitlines()[2].split()[:1] == ["1"]
        assert "refused (no-space)" in said
    store.close()
