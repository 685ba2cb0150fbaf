"""Random lives of two rollouts over a few devices: whatever happens in whatever order, the same few rules hold."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from edge_runtime.protocol.update import Running, UpdateAction
from fleet_server.audit import verify
from fleet_server.rollouts.plan_records import OnFail, Pacing
from fleet_server.rollouts.problems import RolloutProblem
from fleet_server.rollouts.states import RolloutState
from fleet_server.storage import open_store
from tests.rigs.databases import migrated_file
from tests.rigs.rollout_fleet import PaperFleet, names, stage

DEVICES = names(5)
FATES = ("healthy", "reverted", "refused", "silent", "vanishes")
PEOPLE = st.sampled_from(["anna", "ben", "carla"])


class Lives(RuleBasedStateMachine):
    """People, devices and time act; the database is a real one."""

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-lives-", dir=memory))
        self.fleet = PaperFleet(open_store(migrated_file(self.folder)))
        self.states: dict[str, RolloutState] = {}

    @initialize()
    def begin(self) -> None:
        good = self.fleet.publish(1)
        self.fleet.publish(2, rollback_to=(good,))
        self.fleet.publish(3)
        self.fleet.enrol(*DEVICES, runs=(good, 1))

    @rule(
        counter=st.sampled_from([2, 3]),
        on_fail=st.sampled_from(OnFail),
        two=st.booleans(),
        in_flight=st.sampled_from([1, 2, 100]),
        by=PEOPLE,
    )
    def create(self, counter: int, on_fail: OnFail, two: bool, in_flight: int, by: str) -> None:
        stages = (stage(5000), stage()) if two else (stage(),)
        limits = {"offered_s": 60, "probation_s": 1900, "unreachable_s": 120}
        plan = self.fleet.plan(
            counter, *stages, on_fail=on_fail, pacing=Pacing(max_in_flight=in_flight), deadlines=limits
        )
        self._try(lambda: self.fleet.service.create(by, plan))

    @rule(
        number=st.integers(1, 4), by=PEOPLE, act=st.sampled_from(["approve", "start", "resume", "rollback"])
    )
    def go_on(self, number: int, by: str, act: str) -> None:
        self._try(lambda: getattr(self.fleet.service, act)(by, f"r{number}"))

    @rule(number=st.integers(1, 4), act=st.sampled_from(["pause", "halt", "cancel"]))
    def stop(self, number: int, act: str) -> None:
        self._try(lambda: getattr(self.fleet.service, act)("dora", f"r{number}", "so"))

    @rule(name=st.sampled_from(DEVICES), fate=st.sampled_from(FATES))
    def change(self, name: str, fate: str) -> None:
        self.fleet.devices[name].fate = fate

    @rule(name=st.sampled_from(DEVICES), state=st.sampled_from(["online", "offline"]))
    def come_or_go(self, name: str, state: str) -> None:
        self.fleet.presence(state, name)

    @rule(name=st.sampled_from(DEVICES), state=st.sampled_from(["active", "revoked"]))
    def put_out(self, name: str, state: str) -> None:
        self.fleet.set_state(state, name)

    @rule(name=st.sampled_from(DEVICES))
    def fall_back(self, name: str) -> None:
        self.fleet.devices[name].running = Running()
        self.fleet.say(name)

    @rule(name=st.sampled_from(DEVICES))
    def say_it_again(self, name: str) -> None:
        device = self.fleet.devices[name]
        self.fleet.take([(name, report) for report in device.unsettled.values()])

    @rule(counter=st.sampled_from([2, 3]))
    def revoke(self, counter: int) -> None:
        if self.fleet.now_ms % 7 == 0:  # seldom: it ends everything
            self.fleet.revoke(counter)

    @rule()
    def start_the_server_again(self) -> None:
        self.fleet.service = self.fleet.new_service()

    @rule(seconds=st.sampled_from([0.5, 5.0, 31.0, 61.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.fleet.round(seconds)

    @invariant()
    def one_live_rollout_has_a_device(self) -> None:
        twice = "SELECT device FROM rollout_members WHERE live GROUP BY device, slot HAVING count(*) > 1"
        assert self.fleet.rows(twice) == []
        over = (
            "SELECT m.device FROM rollout_members m JOIN rollouts r ON r.number = m.rollout "
            "WHERE m.live AND r.state IN ('completed', 'cancelled', 'rolled-back')"
        )
        assert self.fleet.rows(over) == []

    @invariant()
    def numbers_of_a_device_have_no_gap_and_one_is_live_at_most(self) -> None:
        found: dict[str, list[int]] = {}
        for row in self.fleet.rows("SELECT device, seq FROM assignments ORDER BY device, seq"):
            found.setdefault(row.device, []).append(row.seq)
        assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in found.values())
        live = "SELECT device FROM assignments WHERE live GROUP BY device, slot HAVING count(*) > 1"
        assert self.fleet.rows(live) == []

    @invariant()
    def nobody_is_asked_for_what_is_not_the_newest(self) -> None:
        newest = (
            "SELECT a.device FROM assignments a WHERE a.live AND a.seq < "
            "(SELECT max(b.seq) FROM assignments b WHERE b.device = a.device AND b.slot = a.slot)"
        )
        assert self.fleet.rows(newest) == []

    @invariant()
    def a_rollout_asks_a_device_once(self) -> None:
        for device in self.fleet.devices.values():
            installs = [a.rollout for a in device.seen if a.action is UpdateAction.INSTALL]
            rounds = self.fleet.rows(
                "SELECT max(round) AS n FROM rollout_members WHERE device = ?", device.name
            )
            assert len(installs) <= len(set(installs)) + (rounds[0].n or 0)

    @invariant()
    def states_only_go_where_there_is_a_way(self) -> None:
        for one in self.fleet.service.rollouts():
            before = self.states.get(one.id, one.state)
            assert _reaches(before, one.state), (one.id, before, one.state)
            self.states[one.id] = one.state

    @invariant()
    def no_stage_is_open_before_the_one_before_it_was(self) -> None:
        for one in self.fleet.service.rollouts():
            opened = [view.state.is_open for view in self.fleet.show(one.id).stages_view]
            assert opened == sorted(opened, reverse=True)

    @invariant()
    def the_audit_is_whole(self) -> None:
        with self.fleet.store.read() as session:
            assert verify(session).whole

    def _try(self, act: Callable[[], object]) -> None:
        """People may ask for anything; what is refused changes nothing."""
        before = [tuple(row) for row in self.fleet.rows("SELECT number, state FROM rollouts ORDER BY number")]
        try:
            act()
        except RolloutProblem:
            after = [
                tuple(row) for row in self.fleet.rows("SELECT number, state FROM rollouts ORDER BY number")
            ]
            assert after == before

    def teardown(self) -> None:
        self.fleet.store.close()
        shutil.rmtree(self.folder)


def _reaches(one: RolloutState, other: RolloutState) -> bool:
    """Whether there is a way, in any number of turns: a step may take two of them."""
    seen, edge = {one}, {one}
    while edge:
        edge = {after for at in edge for after in RolloutState if at.may_become(after)} - seen
        seen |= edge
    return other in seen


def _live(lives: int, steps: int) -> None:
    run_state_machine_as_test(
        Lives, settings=settings(max_examples=lives, stateful_step_count=steps, deadline=None)
    )


def test_random_lives() -> None:
    _live(8, 25)


@pytest.mark.trial
def test_many_random_lives() -> None:
    _live(200, 60)
