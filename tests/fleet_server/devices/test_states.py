"""Random lives of a few devices: whatever happens in whatever order, who is good follows the same few rules."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from edge_runtime.protocol.enrolment import EnrolmentState
from fleet_server.devices import DeviceProblem
from fleet_server.storage import open_store, upgrade
from tests.rigs.enrolments import Asker, Office, serial_of

NAMES = st.sampled_from(["dev-1", "dev-2"])


class Lives(RuleBasedStateMachine):
    """Operators and devices act; the database is a real one."""

    def __init__(self) -> None:
        super().__init__()
        # in memory where that is possible: thousands of commits, and no power cut
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-lives-", dir=memory))
        self.store = open_store(f"sqlite:///{self.folder / 'fleet.db'}")
        upgrade(self.store)
        self.office = Office(self.store, self.folder)
        self.holders: list[tuple[Asker, str, str]] = []  # who has which certificate of which device
        self.waiting: list[tuple[Asker, str]] = []
        self.out: set[str] = set()
        self.ever: set[str] = set()

    @initialize()
    def first(self) -> None:
        self.enrol("dev-1")

    @rule(name=NAMES)
    def enrol(self, name: str) -> None:
        token = self.office.registry.invite("alice").token
        asker = Asker(name=name)
        known = self._state(name) is not None
        try:
            answer = self.office.service.enrol(asker.request(token))
        except DeviceProblem:
            assert known
            return
        assert (answer.state is EnrolmentState.PENDING) is known
        if answer.certificate is None:
            self.waiting.append((asker, token))
        else:
            self.holders.append((asker, name, answer.certificate))

    @rule(name=NAMES)
    def approve(self, name: str) -> None:
        before = {serial for device, serial in self.office.good() if device == name}
        try:
            accepted = self.office.registry.approve("bob", name)
        except DeviceProblem:
            return
        assert not before & {serial for _, serial in self.office.good()}
        self.out |= before
        for asker, token in list(self.waiting):
            try:
                answer = self.office.service.enrol(asker.request(token))
            except DeviceProblem:
                self.waiting.remove((asker, token))
                continue
            if answer.certificate is not None:
                assert serial_of(answer.certificate) == accepted.serial
                self.holders.append((asker, name, answer.certificate))
                self.waiting.remove((asker, token))

    @rule(name=NAMES, removes=st.booleans())
    def put_out(self, name: str, removes: bool) -> None:
        act = self.office.registry.remove if removes else self.office.registry.revoke
        try:
            act("bob", name)
        except DeviceProblem:
            assert self._state(name) is None
            return
        self.out |= {serial_of(pem) for _, device, pem in self.holders if device == name}
        assert name not in {device for device, _ in self.office.good()}

    @rule(which=st.integers(0, 20))
    def renew(self, which: int) -> None:
        if not self.holders:
            return
        asker, name, pem = self.holders[which % len(self.holders)]
        new = Asker()
        request = asker.renewal(pem, self.office.service.challenge().nonce, new)
        before = {serial for device, serial in self.office.good() if device == name}
        try:
            answer = self.office.service.renew(request)
        except DeviceProblem:
            return
        assert serial_of(pem) not in self.out, "what was put out has renewed"
        self.out |= before - {serial_of(pem)}
        assert answer.certificate is not None
        self.holders.append((new, name, answer.certificate))

    @rule(days=st.sampled_from([0.1, 5, 25, 80, 130]))
    def wait(self, days: float) -> None:
        self.office.clock.pass_days(days)

    @invariant()
    def at_most_two_are_good_and_what_is_out_stays_out(self) -> None:
        good = self.office.good()
        for name in ("dev-1", "dev-2"):
            serials = {serial for device, serial in good if device == name}
            assert len(serials) <= 2
            if self._state(name) != "active":
                assert not serials
        assert not {serial for _, serial in good} & self.out
        assert not {serial for _, serial in good} & self.office.out()

    def _state(self, name: str) -> str | None:
        from fleet_server.storage.device_tables import DeviceRow

        with self.store.read() as session:
            row = session.get(DeviceRow, name)
            return None if row is None else row.state

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


def test_a_few_lives() -> None:
    run_state_machine_as_test(Lives, settings=settings(max_examples=8, stateful_step_count=25, deadline=None))


@pytest.mark.trial
def test_many_lives() -> None:
    run_state_machine_as_test(
        Lives, settings=settings(max_examples=100, stateful_step_count=40, deadline=None)
    )
