"""`fleet rollout` and `fleet device history`, over HTTPS with tokens of people, against the real engine."""

import contextlib
import itertools
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.release import Fit, Opening
from fleet_server.cli import rollout_watch
from fleet_server.cli.commands import COMMANDS
from fleet_server.cli.main import run
from fleet_server.cli.rollout_exits import rollout_exit, stands, way_exit
from fleet_server.cli.rollout_forms import next_act
from fleet_server.http.limits import Limits, Rate
from fleet_server.rollouts.states import MemberState, RolloutState
from tests.rigs.fleet_api import served
from tests.rigs.rollout_desk import RolloutDesk, rollout_desk
from tests.rigs.rollout_fleet import FACTS, names

LONG = "loading-bay-camera-north-east-17"
QUICK = ("--soak", "10s", "--min-share", "100%")


class Person:
    """Somebody at a terminal of their own."""

    def __init__(
        self, name: str, desk: RolloutDesk, options: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.name, self.desk = name, desk
        self._options, self._capsys = options, capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        code = run([*arguments, *self._options])
        self.out, self.err = self._capsys.readouterr()
        assert "Traceback" not in self.err
        return code

    def json(self, *arguments: str) -> Any:
        self.code = self(*arguments, "--json")
        return json.loads(self.out)


class People:
    """Anna makes rollouts, Ben agrees to them, Vera looks on."""

    def __init__(self, desk: RolloutDesk, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.desk, self.fleet = desk, desk.fleet
        made = {}
        for name, token in desk.tokens.items():
            file = folder / f"{name}.token"
            file.write_text(token)
            authority = str(desk.api.directory / "authority/ca.pem")
            made[name] = Person(
                name, desk, ["--server", url, "--token-file", str(file), "--ca", authority], capsys
            )
        self.anna, self.ben, self.vera = made["anna"], made["ben"], made["vera"]

    def started(self, release: str, *options: str) -> str:
        """A rollout that runs; its id."""
        code = self.anna("rollout", "create", "--release", release, "--slot", "people", *QUICK, *options)
        assert code == 0, self.anna.err
        rollout = self.anna.out.strip()
        assert self.ben("rollout", "approve", rollout) == 0, self.ben.err
        assert self.anna("rollout", "start", rollout) == 0, self.anna.err
        return rollout


@pytest.fixture
def people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[People]:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    limit = Rate(1e9, 1_000_000)
    limits = Limits(address=limit, token=limit)
    for desk in rollout_desk(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", limits):
        with served(desk.api) as url:
            yield People(desk, url, tmp_path, capsys)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def become_one() -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda _fallback: os.terminal_size((80, 24)))

    return become_one


@contextlib.contextmanager
def time_passes(people: People, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine steps and devices answer, while somebody watches."""
    monkeypatch.setattr(rollout_watch, "POLL_S", 0.02)
    ended = threading.Event()

    def pass_on() -> None:
        while not ended.wait(0.03):
            people.fleet.round(5)

    thread = threading.Thread(target=pass_on, name="time")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_good_rollout_from_plan_to_completed(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben, vera = people.anna, people.ben, people.vera
    people.fleet.publish(7, fit=Fit(architectures=("aarch64",)))
    people.fleet.enrol(*names(18), labels={"site": "berlin"})
    people.fleet.enrol(
        "old-1", labels={"site": "berlin"}, facts=FACTS.model_copy(update={"architecture": "armv7l"})
    )
    people.fleet.enrol("north-1", labels={"site": "north"})
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "release: models/people/7\nslot: people\nlabels: {site: berlin}\n"
        "rules: {soak: 10s, min_share: 100%}\nstages: [20, 100]\n"
    )
    assert vera("rollout", "plan", str(plan)) == 0, vera.err
    lines = vera.out.splitlines()
    assert lines[0] == "release     models/people/7/bundle.json, 977 KiB, for people"
    assert lines[1] == "selected    19 devices by site=berlin; 18 would get it"
    assert lines[2] == "not         1 incompatible (1 architecture)"
    assert lines[3].split() == ["stage", "share", "devices", "opens", "(UTC)", "needs", "a", "pass", "shows"]
    assert lines[5].startswith("    1   20 %  ")
    assert "bytes       17 MiB of downloads" in vera.out
    assert "WARNING     stage 1 may pass on 1 good device" in vera.out

    assert vera("rollout", "plan", str(plan), "--devices") == 0
    rows = vera.out.split("\n\n")[1].splitlines()[2:]
    assert len(rows) == 19
    assert any(row.split()[:4] == ["-", "old-1", row.split()[2], "incompatible"] for row in rows)

    assert vera("rollout", "create", str(plan)) == 5, "a viewer makes nothing"
    assert anna("rollout", "create", str(plan), "--name", "night shift") == 0, anna.err
    assert anna.out == "r1\n"
    assert "r1  night shift  AWAITING APPROVAL" in anna.err
    assert anna("rollout", "start", "r1") == 1
    assert anna("rollout", "approve", "r1") == 5, "the role operator lets nothing through"
    assert vera("rollout", "status", "r1") == 11
    assert "next        an approval to start, by another than anna: fleet rollout approve r1" in vera.out
    assert ben("rollout", "approve", "r1", "--note", "looks right") == 0, ben.err
    assert "next: fleet rollout start r1" in ben.err
    assert anna("rollout", "start", "r1") == 0, anna.err
    assert "r1  night shift  RUNNING" in anna.err
    people.fleet.round()
    assert vera("rollout", "status", "r1") == 10
    with time_passes(people, monkeypatch):
        assert vera("rollout", "status", "r1", "--watch") == 0, vera.err
    told = vera.out.splitlines()
    assert told[0].startswith("r1 running stage 1 of 2: ")
    assert told[-1].startswith("r1 completed stage 2 of 2: 18 healthy")
    assert vera("rollout", "status", "r1") == 0
    assert "agreed      ben to its start, " in vera.out
    assert vera.out.count("  passed  ") == 2
    assert vera("rollout", "explain", "dev-1") == 0
    assert "r1  night shift  completed: the device has it" in vera.out
    assert vera("rollout", "explain", "old-1") == 20
    assert "✗ the release is for aarch64, the device has armv7l" in vera.out
    assert vera("rollout", "explain", "north-1") == 20
    assert "no rollout names it" in vera.out
    assert vera("rollout", "explain", "north-1", "--rollout", "r1") == 20
    assert "what would change it: fleet device label north-1 site=berlin" in vera.out
    assert vera("device", "history", "dev-1") == 0
    assert vera.out.splitlines()[2].split()[3:6] == ["r1", "people", "install"]
    assert vera("rollout", "list") == 0
    assert "r1  night shift  completed  2 of 2" in vera.out


def test_a_bad_rollout_halts_is_sent_back_and_says_so_in_its_exit_codes(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben, vera = people.anna, people.ben, people.vera
    before = people.fleet.publish(1)
    people.fleet.publish(2, rollback_to=(before,))
    people.fleet.enrol(*names(6), runs=(before, 1))
    people.fleet.enrol(*names(3, "bad"), runs=(before, 1), fate="reverted")
    people.fleet.enrol("full-1", runs=(before, 1), fate="refused")
    rollout = people.started("models/people/2", "--stages", "100", "--min-devices", "10")
    with time_passes(people, monkeypatch):
        assert vera("rollout", "status", rollout, "--watch", "--json") == 14
    views = [json.loads(line) for line in vera.out.splitlines()]
    assert views[-1]["state"] == "halted"
    assert all(one != other for one, other in itertools.pairwise(views)), "a line for each change"
    assert vera("rollout", "status", rollout, "--devices", "reverted") == 14
    assert "HALTED: stage 1: 4 of 10 bad" in vera.out
    assert (
        "bad by      3 probation-nonfinite, 1 no-space" in vera.out or "1 no-space, 3 probation" in vera.out
    )
    assert vera.out.count("\nbad-") == 3
    assert vera("rollout", "explain", "bad-1") == 22
    assert "✗ tried, and went back to what ran before (probation-nonfinite)" in vera.out
    assert vera("rollout", "explain", "full-1") == 21
    assert "what would change it: free space on the device's disk" in vera.out
    assert anna("rollout", "rollback", rollout) in (1, 5), "another person has to agree"
    assert ben("rollout", "approve", rollout) == 0
    assert anna("rollout", "rollback", rollout) == 0, anna.err
    assert "ROLLING BACK" in anna.err
    with time_passes(people, monkeypatch):
        assert vera("rollout", "status", rollout, "--watch") == 15
    assert f"{rollout} rolled-back stage 1 of 1: 6 healthy" in vera.out
    history = vera.json("device", "history", "dev-1")
    assert [(one["action"], one["left"]) for one in history] == [
        ("rollback", "updated"),
        ("install", "updated"),
    ]
    assert {device.running.sha256 for device in people.fleet.devices.values()} == {before}


def test_what_cannot_be_sent_back_is_said_in_the_exit_code(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = people.fleet.publish(1)
    people.fleet.publish(2)  # nobody signed that it may go back
    people.fleet.enrol(*names(4), runs=(before, 1))
    rollout = people.started("models/people/2", "--stages", "100")
    people.fleet.rounds(2)
    assert people.anna("rollout", "halt", rollout, "--reason", "people see ghosts") == 0
    assert people.vera("rollout", "status", rollout) == 14
    assert people.ben("rollout", "approve", rollout) == 0
    assert people.anna("rollout", "rollback", rollout) == 0
    with time_passes(people, monkeypatch):
        assert people.vera("rollout", "status", rollout, "--watch") == 16
    assert people.vera("rollout", "status", rollout) == 16
    assert "LEFT        4 rollback-not-permitted: they were not sent back" in people.vera.out
    assert people.vera("rollout", "explain", "dev-1") == 24
    assert "a release whose rollback_to names the older one" in people.vera.out


def test_an_inconclusive_stage_has_a_code_of_its_own(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.fleet.publish(1)
    people.fleet.enrol(*names(2))
    people.fleet.enrol(*names(3, "away"), online=False)
    rollout = people.started("models/people/1", "--stages", "100", "--min-devices", "4", "--max-wait", "60s")
    with time_passes(people, monkeypatch):
        assert people.vera("rollout", "status", rollout, "--watch") == 13
    assert "PAUSED: stage 1: 0 of 2 bad" in _status(people, rollout)
    assert people.vera("rollout", "explain", "away-1") == 10
    assert people.vera("rollout", "list", "--state", "paused") == 0
    assert people.vera.out.splitlines()[2].startswith(rollout)
    assert people.ben("rollout", "approve", rollout) == 0
    assert people.anna("rollout", "resume", rollout, "--accept") == 1, "that was not what Ben agreed to"
    assert people.vera("rollout", "status", rollout, "--json") == 13
    seen = json.loads(people.vera.out)["going_on"]
    assert (seen["bad"], seen["stages"]) == (0, [1])
    assert people.ben("rollout", "approve", rollout, "--accept", "--digest", "0" * 64) == 1
    assert "has changed since it was looked at" in people.ben.err
    assert people.ben("rollout", "approve", rollout, "--accept", "--digest", seen["digest"]) == 0
    assert "agreed      ben to its going on, open stages let pass" in _status(people, rollout)
    assert people.anna("rollout", "resume", rollout, "--accept") == 0, people.anna.err
    people.fleet.round()
    assert people.vera("rollout", "status", rollout) == 0, people.vera.out


def _status(people: People, rollout: str) -> str:
    people.vera("rollout", "status", rollout)
    return people.vera.out


def test_pause_and_cancel(people: People) -> None:
    people.fleet.publish(1)
    people.fleet.enrol(*names(4))
    rollout = people.started("models/people/1", "--stages", "100", "--max-in-flight", "1")
    people.fleet.round()
    assert people.anna("rollout", "pause", rollout, "--reason", "a look") == 0
    assert people.vera("rollout", "status", rollout) == 12
    assert people.anna("rollout", "resume", rollout) in (1, 5)
    assert people.anna("rollout", "cancel", rollout, "--reason", "another one is better") == 0
    assert people.vera("rollout", "status", rollout) == 17
    assert people.vera("rollout", "status", rollout, "--watch") == 17, "it is over: there is nothing to watch"
    assert people.anna("rollout", "pause", rollout, "--reason", "x") == 1
    assert people.anna("rollout", "cancel", "r99", "--reason", "x") == 3
    assert people.anna("rollout", "pause", rollout) == 2


def test_a_plan_that_would_be_refused_says_why(people: People, tmp_path: Path) -> None:
    people.fleet.publish(1, openings=(Opening(basis_points=1000),))
    people.fleet.enrol(*names(4))
    plan = ("--release", "models/people/1", "--slot", "people", "--stages", "10,100")
    assert people.vera("rollout", "plan", *plan) == 1
    assert (
        "REFUSED     stage 2 opens 100 % of the fleet, and people signed for 10 % at most" in people.vera.out
    )
    assert people.anna("rollout", "create", *plan) == 2
    assert people.anna.out == ""
    assert people.vera("rollout", "plan", *plan[:3], "other", *plan[4:]) == 1
    assert "REFUSED     no device is eligible: 4 no-such-slot" in people.vera.out
    assert (
        people.vera("rollout", "plan", "--release", "models/people/9", "--slot", "people", "--stages", "5")
        == 3
    )
    assert people.vera("rollout", "plan", "--slot", "people", "--stages", "5") == 2
    assert people.vera.err == "error: release is missing: models/NAME/COUNTER\n"
    report = people.vera.json("rollout", "plan", *plan)
    assert people.vera.code == 1
    file = tmp_path / "again.json"
    file.write_text(json.dumps(report))
    assert people.vera.json("rollout", "plan", str(file)) == {
        **report,
        "stages": people.vera.json("rollout", "plan", str(file))["stages"],
    }


def test_what_people_see_fits_80_columns(people: People, terminal: Callable[[], None]) -> None:
    before = people.fleet.publish(1)
    people.fleet.publish(2, rollback_to=(before,))
    people.fleet.enrol(*names(5), LONG, runs=(before, 1), labels={"site": "n" * 60})
    people.fleet.enrol("bad-1", runs=(before, 1), fate="reverted")
    rollout = people.started("models/people/2", "--stages", "50,100", "--on-fail", "pause")
    people.fleet.rounds(12, 5)
    terminal()
    for command in (
        ["plan", "--release", "models/people/2", "--slot", "people", "--stages", "2,100", "--devices"],
        ["status", rollout, "--devices", "all"],
        ["list"],
    ):
        people.vera("rollout", *command)
        table = [line for line in people.vera.out.splitlines() if "  " in line]
        assert table
        assert max(len(line) for line in table) <= 80, people.vera.out
        assert "\x1b" not in people.vera.out
    for words in (["rollout", "explain", "load…-17"], ["device", "history", "load…-17"], ["health"]):
        assert people.vera(*words) in (0, 1, 10), people.vera.err
        lines = [line for line in people.vera.out.splitlines() if not line.startswith("WARNING")]
        assert max(len(line) for line in lines) <= 80, people.vera.out


def test_a_picture_on_a_terminal(
    people: People, terminal: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    people.fleet.publish(1)
    people.fleet.enrol(*names(4))
    rollout = people.started("models/people/1", "--stages", "100")
    terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with time_passes(people, monkeypatch):
        assert people.vera("rollout", "status", rollout, "--watch") == 0
    assert people.vera.out.count("COMPLETED") >= 1
    assert "RUNNING" in people.vera.out
    assert "│" not in people.vera.out


def test_a_watch_waits_for_a_server_that_goes_away(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.fleet.publish(1)
    people.fleet.enrol(*names(2))
    rollout = people.started("models/people/1", "--stages", "100")
    from fleet_server.cli.client import FleetClient
    from fleet_server.cli.errors import NotReachable

    real, calls = FleetClient.get, []

    def flaky(self: FleetClient, path: str, **parameters: Any) -> Any:
        calls.append(path)
        if len(calls) in (2, 3):
            raise NotReachable("the server does not answer")
        return real(self, path, **parameters)

    monkeypatch.setattr(FleetClient, "get", flaky)
    with time_passes(people, monkeypatch):
        assert people.vera("rollout", "status", rollout, "--watch") == 0
    assert people.vera.err.count("waiting for it") == 1
    assert len(calls) > 3


def test_every_state_has_its_exit_code() -> None:
    base = {"reason_code": "asked", "rollback": {}, "left": {}, "needs": None, "plan": {"start_at_ms": None}}
    codes = {state: rollout_exit({**base, "state": state.value}) for state in RolloutState}
    documented = next(row.exits["status"] for row in COMMANDS if row.name == "rollout")
    assert set(codes.values()) | {13, 16} == set(documented)
    assert [state for state, code in codes.items() if code == 0] == [RolloutState.COMPLETED]
    assert {state for state, code in codes.items() if code == 10} == {
        RolloutState.RUNNING,
        RolloutState.ROLLING_BACK,
    }
    assert rollout_exit({**base, "state": "paused", "reason_code": "stage-inconclusive"}) == 13
    assert rollout_exit({**base, "state": "rolled-back", "rollback": {"healthy": 3, "stuck": 1}}) == 16
    assert rollout_exit({**base, "state": "rolled-back", "rollback": {"healthy": 3}}) == 15
    moving = {state for state in RolloutState if not stands({**base, "state": state.value})}
    assert moving == {RolloutState.RUNNING, RolloutState.ROLLING_BACK, RolloutState.AWAITING_APPROVAL}
    assert stands({**base, "state": "awaiting-approval", "needs": "start"})
    assert not stands({**base, "state": "ready", "plan": {"start_at_ms": 5}})


def test_every_state_of_a_device_has_its_exit_code() -> None:
    documented = next(row.exits["explain"] for row in COMMANDS if row.name == "rollout")
    codes = {
        state: way_exit({"membership": {"state": state.value}, "has_it": False}) for state in MemberState
    }
    assert set(codes.values()) | {20} == set(documented)
    assert [state for state, code in codes.items() if code == 0] == [MemberState.HEALTHY]
    assert way_exit({"membership": {"state": None}, "has_it": True}) == 0, "it runs it, by whatever way"
    assert way_exit({"membership": {"state": None}, "has_it": False}) == 20


@pytest.mark.parametrize(
    "state", [state for state in RolloutState if state is not RolloutState.AWAITING_APPROVAL]
)
def test_every_act_that_is_proposed_is_one_that_the_state_allows(state: RolloutState) -> None:
    text = next_act({"id": "r1", "state": state.value, "needs": None, "author": "anna"})
    ways = {
        "start": RolloutState.RUNNING,
        "resume": RolloutState.RUNNING,
        "halt": RolloutState.HALTED,
        "cancel": RolloutState.CANCELLED,
    }
    for act, becomes in ways.items():
        assert act not in text.split("fleet rollout")[-1] or state.may_become(becomes), text
    assert "rollback" not in text or state is RolloutState.HALTED  # by a person, from there alone
