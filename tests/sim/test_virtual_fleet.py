"""A virtual fleet against a real server, its broker and real rollouts: what people signed is what devices run."""

import asyncio
import contextlib
import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.release import ProbationTerms, ShadowTerms
from fleet_server.init import initialise
from fleet_server.releases.catalog import PublishedRelease
from fleet_server.rollouts.plan_records import OnFail, RolloutPlan, StagePlan, StageRules
from fleet_server.rollouts.records import RolloutView
from fleet_server.rollouts.states import MemberState, RolloutState
from fleet_server.serve.composition import Application, open_application
from sim.ports import free_port
from sim.road import Server
from sim.virtual.character import Shares
from sim.virtual.members import enrol_many
from sim.virtual.perception import Behaviour
from sim.virtual_fleet import VirtualFleet
from tests.rigs.release_parties import SignedFleet, small_package

PACKAGE = "sha256:" + "0" * 64
QUICK: dict[str, Any] = {
    "shadow": ShadowTerms(seconds=1, min_frames=10),
    "probation": ProbationTerms(seconds=1, min_frames=15),
}
HASTY: dict[str, Any] = {
    "shadow": ShadowTerms(seconds=0),
    "probation": ProbationTerms(seconds=1, min_frames=15),
}


@dataclass
class Site:
    """A server that runs, people with keys, and devices that live in a thread of their own."""

    server: Server
    application: Application
    people: SignedFleet
    fleet: VirtualFleet
    bad: set[str]

    def roll_out(self, release: PublishedRelease, stages: tuple[StagePlan, ...]) -> RolloutView:
        """One rollout from its plan to its end."""
        rollouts = self.application.services.rollouts
        plan = RolloutPlan(
            name=f"{release.name} {release.counter}",
            slot="m",
            release=release.name,
            counter=release.counter,
            stages=stages,
            on_fail=OnFail.ROLLBACK,
        )
        made = rollouts.create("ada", plan)
        rollouts.approve("ben", made.id)
        rollouts.start("ada", made.id)
        deadline = time.monotonic() + 1500
        while not (found := rollouts.status(made.id)).state.is_over:
            assert time.monotonic() < deadline, found.model_dump_json(indent=1)
            time.sleep(0.5)
        return found

    def wait_online(self, count: int, within_s: float) -> None:
        """Until so many devices have told the server what they run."""
        deadline = time.monotonic() + within_s
        while (known := len(self._told())) < count:
            assert time.monotonic() < deadline, (known, self.fleet.online, self.fleet.counts)
            time.sleep(0.2)

    def _told(self) -> list[object]:
        with self.application.store.read() as session:
            return list(session.connection().exec_driver_sql("SELECT DISTINCT device FROM device_slots"))


@contextlib.contextmanager
def site(folder: Path, devices: int, shares: Shares, arrive_s: float) -> Iterator[Site]:
    """Keys, a server, and devices that have begun to come."""
    initialise(folder / "fleet", listen=f"127.0.0.1:{free_port()}", broker_port=free_port())
    application = open_application(folder / "fleet", {})
    people = SignedFleet.begin(folder / "people", application.store, desk=application.services.releases)
    members = enrol_many(folder / "fleet", [f"v-{number}" for number in range(devices)])
    server = Server(folder)
    bad: set[str] = set()
    try:
        server.start()
        fleet = VirtualFleet(
            members,
            server.broker,
            server.url,
            folder / "virtual",
            PACKAGE,
            shares=shares,
            behave=lambda sha256: Behaviour(nonfinite=1.0) if sha256 in bad else Behaviour(),
            arrive_s=arrive_s,
        )
        with _living(fleet):
            yield Site(server, application, people, fleet, bad)
    finally:
        application.close()
        server.process.stop()


@contextlib.contextmanager
def _living(fleet: VirtualFleet) -> Iterator[None]:
    loop, stopping = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(fleet.run(stopping)))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(30)
        assert not thread.is_alive()
        loop.close()


@pytest.mark.trial
def test_a_good_release_goes_through_its_rings_and_a_bad_one_ends_in_the_first(tmp_path: Path) -> None:
    with site(tmp_path, 16, Shares(offline=0.1, download_s=(0.1, 0.3), load_s=(0.1, 0.3)), 0.5) as place:
        there = sum(device.character.online for device in place.fleet.devices)
        good = place.people.publish(small_package(tmp_path / "good"), **QUICK)
        place.wait_online(there, 30)
        rules = StageRules(min_devices=1, min_share=1.0, max_bad=1, soak_s=0, max_wait_s=60)
        done = place.roll_out(good, (StagePlan(basis_points=10_000, rules=rules),))
        assert done.state is RolloutState.COMPLETED
        assert done.counts == {MemberState.HEALTHY: there}
        assert place.fleet.running("m") == {good.sha256: there, None: 16 - there}

        bad = place.people.publish(small_package(tmp_path / "bad", seed=2), **HASTY)
        place.bad.add(bad.sha256)
        stages = (StagePlan(basis_points=5000, rules=rules), StagePlan(basis_points=10_000, rules=rules))
        stopped = place.roll_out(bad, stages)
        assert stopped.state is RolloutState.ROLLED_BACK
        assert MemberState.HEALTHY not in stopped.counts
        assert set(stopped.codes) == {"probation-nonfinite"}
        assert [stage.state.value for stage in stopped.stages_view] == ["failed", "pending"]
        assert place.fleet.running("m") == {good.sha256: there, None: 16 - there}
        assert all(not device.files.names("journal.lost") for device in place.fleet.devices)
        with place.application.store.read() as session:
            letters = session.connection().exec_driver_sql("SELECT code, text FROM dead_letters")
            assert list(letters) == []


@pytest.mark.trial
@pytest.mark.timeout(2400)
def test_a_thousand_devices_over_the_embedded_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fifth is never there, some break off, two of a hundred fail: the rest comes to the release all the same."""
    count = 1000
    began = time.monotonic()
    with site(tmp_path, count, Shares(offline=0.2, flapping=0.05, failing=0.02), count / 20) as place:
        there = [device for device in place.fleet.devices if device.character.online]
        sound = sum(device.character.fault is None for device in there)
        good = place.people.publish(small_package(tmp_path / "good"), **QUICK)
        place.wait_online(len(there), 300)
        arrived = time.monotonic()
        # devices that refuse say so sooner than others prove themselves: a verdict needs enough of both
        done = place.roll_out(
            good,
            tuple(
                StagePlan(
                    basis_points=share,
                    rules=StageRules(
                        min_devices=least, min_share=0.9, max_bad_share=0.1, soak_s=2, max_wait_s=900
                    ),
                )
                for share, least in ((100, 4), (1000, 40), (5000, 150), (10_000, 150))
            ),
        )
        rolled = time.monotonic()
        assert done.state is RolloutState.COMPLETED, done.model_dump_json(indent=1)
        assert done.counts[MemberState.HEALTHY] >= 0.9 * sound
        assert set(done.codes) <= {"shadow-slow", "probation-crash", "no-space", "golden-vectors"}
        running = place.fleet.running("m")
        assert running[good.sha256] >= done.counts[MemberState.HEALTHY]
        counts, mirror = place.fleet.counts, place.fleet.mirror
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with capsys.disabled():
        print(
            f"\n{count} virtual devices, {len(there)} there, {sound} of them sound: "
            f"enrolled and arrived in {arrived - began:.0f} s, rolled out in {rolled - arrived:.0f} s\n"
            f"{done.counts} {done.codes}\n{counts}; metadata asked {mirror.asked}, fetched {mirror.fetched}; "
            f"peak {peak_mb:.0f} MB in this process"
        )
