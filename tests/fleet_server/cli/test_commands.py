"""Every command against a real data directory: what it prints, what it leaves with, and how wide it is."""

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.protocol.delivery import Ledger
from fleet_server.cli.main import run
from fleet_server.operators import Role
from tests.rigs.deliveries import DeviceRig, FakeClock
from tests.rigs.fleet_api import FleetApi, fleet_api, served

LONG = "loading-bay-camera-north-east-17"
EVIL = "cam\x1b[31m\u202e"


class Fleet:
    """The command line in this process."""

    def __init__(self, api: FleetApi, capsys: pytest.CaptureFixture[str]) -> None:
        self.api, self._capsys = api, capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        code = run(arguments)
        self.out, self.err = self._capsys.readouterr()
        assert "Traceback" not in self.err
        return code

    def json(self, *arguments: str) -> Any:
        assert self(*arguments, "--json") == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fleet]:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    for api in fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock):
        monkeypatch.setenv("FLEET_DATA", str(api.directory))
        api.add_device("dock-1")
        api.add_device(LONG)
        dock = DeviceRig("dock-1")
        api.deliver(dock, {"rule": "person-in-danger-zone"}, {"rule": "=cmd()", "severity": "critical"})
        api.deliver(DeviceRig(LONG), {"camera": EVIL, "label": 'a,"b'})
        api.take(
            dock.sync(3, Ledger(accepted=100_000, queued=99_990, delivered=2, expired=8)), dock.presence(1)
        )
        yield Fleet(api, capsys)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def become_one() -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda _fallback: os.terminal_size((80, 24)))

    return become_one


def test_in_a_pipe_ids_are_whole_and_on_a_terminal_they_are_taken_back(
    fleet: Fleet, terminal: Callable[[], None]
) -> None:
    fleet("device", "label", LONG, "site=" + "n" * 60)
    (item,) = fleet.api.hold("dock-1", 1)
    assert fleet("device", "list") == 0
    assert f"\n{LONG}  active" in fleet.out
    assert "site=" + "n" * 60 in fleet.out
    assert fleet("review", "list") == 0
    assert item in fleet.out
    assert fleet("events", "tail", "--count", "3") == 0
    assert LONG in fleet.out
    terminal()
    assert fleet("device", "list") == 0
    (short,) = [word for word in fleet.out.split() if "…" in word]
    assert fleet.json("device", "show", short)["id"] == LONG
    assert [event["device"] for event in fleet.json("events", "list", "--device", short)] == [LONG]
    assert fleet("device", "label", "load...-17", "checked=yes") == 0
    assert fleet.json("device", "show", LONG)["labels"]["checked"] == "yes"
    assert fleet("device", "revoke", "x…y") == 3
    assert "see fleet device list" in fleet.err
    fleet.api.add_device("dock-11")
    assert fleet("device", "revoke", "d…1") == 2
    assert "d…1 means 2 devices: dock-1, dock-11" in fleet.err
    assert fleet("device", "revoke", "d…c…1") == 2


@pytest.mark.parametrize(
    "command",
    [
        ["device", "list"],
        ["device", "show", "dock-1"],
        ["events", "list"],
        ["events", "show", "3"],
        ["events", "tail", "--count", "3"],
        ["health"],
        ["audit", "list"],
        ["review", "list"],
        ["token", "list"],
    ],
    ids=" ".join,
)
def test_what_people_see_fits_80_columns_and_holds_no_control_character(
    fleet: Fleet, command: list[str], terminal: Callable[[], None]
) -> None:
    terminal()
    fleet.api.hold("dock-1", 2)
    fleet("device", "label", "dock-1", "site=" + "n" * 60)
    assert fleet(*command) in (0, 1)
    lines = fleet.out.splitlines()
    assert lines
    table = [line for line in lines if command[-1] != "dock-1" or not line.startswith("labels")]
    assert max(len(line) for line in table) <= 80 or command[:2] in (["events", "show"],), fleet.out
    assert "\x1b" not in fleet.out
    assert "\u202e" not in fleet.out


def test_events_are_listed_shown_and_exported(fleet: Fleet, tmp_path: Path) -> None:
    assert [event["device"] for event in fleet.json("events", "list")] == [LONG, "dock-1", "dock-1"]
    assert len(fleet.json("events", "list", "--severity", "critical", "--since", "1h")) == 1
    assert fleet.json("events", "list", "--until", "1h") == []
    assert fleet.json("events", "show", "1")["rule"] == "person-in-danger-zone"
    assert fleet("events", "export") == 0
    assert [json.loads(line)["id"] for line in fleet.out.splitlines()] == [1, 2, 3]
    out = tmp_path / "events.csv"
    assert fleet("events", "export", "--format", "csv", "--out", str(out)) == 0
    assert "3 events" in fleet.err
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["rule"] for row in rows][1] == "'=cmd()"
    assert rows[2]["label"] == 'a,"b'
    assert fleet("events", "export", "--out", str(tmp_path / "no" / "folder")) == 2


@pytest.mark.parametrize(
    ("command", "code", "word"),
    [
        (["events", "show", "999"], 3, "no event 999"),
        (["events", "show", "f" * 32], 3, "no event"),
        (["events", "show", "../x"], 2, "EVENT is"),
        (["events", "show", "1", "--evidence", "x"], 3, "evidence"),
        (["device", "show", "nobody"], 3, "no device nobody"),
        (["device", "show", "../../etc"], 3, "nothing at this path"),
        (["device", "revoke", "nobody"], 3, "no device nobody"),
        (["device", "approve", "dock-1"], 3, "waits for approval"),
        (["device", "label", "dock-1", "a b=c"], 2, "labels"),
        (["token", "revoke", "nobody"], 3, "no token nobody"),
        (["token", "create", "a;b"], 2, "name"),
        (["token", "create", "x", "--role", "king"], 2, "role"),
        (["review", "release", "abcdef", "--reason", "x"], 3, "no device holds"),
        (["events", "list", "--device", "A;B"], 2, "the parameter device is of another form"),
        (["device", "list", "--state", "gone"], 2, "the parameter state must be active, pending, revoked or"),
        (["token", "create", "x", "--expires", "5s"], 2, "the field expires_s must be at least 60"),
    ],
)
def test_what_is_not_there_or_not_usable(fleet: Fleet, command: list[str], code: int, word: str) -> None:
    assert fleet(*command) == code, fleet.err
    assert fleet.out == "" or command[:2] == ["events", "show"]
    assert word in fleet.err
    assert fleet.err.startswith("error: ")
    assert fleet.err.count("\n") == 1


def test_the_life_of_a_device(fleet: Fleet) -> None:
    assert fleet("device", "invite", "--label", "site=north") == 0
    assert fleet.out.startswith("efr1.")
    assert fleet.out.count("\n") == 1
    assert fleet("device", "label", "dock-1", "site=north", "row=3") == 0
    assert "row=3 site=north" in fleet.err
    assert fleet.json("device", "label", "dock-1", "row-")["labels"] == {"site": "north"}
    assert fleet("device", "revoke", "dock-1", "--reason", "stolen") == 0
    assert fleet.json("device", "show", "dock-1")["state"] == "revoked"
    assert fleet("device", "remove", "dock-1") == 0
    assert [device["id"] for device in fleet.json("device", "list")] == [LONG]
    assert [device["id"] for device in fleet.json("device", "list", "--state", "removed")] == ["dock-1"]
    acts = [entry["action"] for entry in fleet.json("audit", "list")]
    assert acts == ["device.remove", "device.revoke", "device.label", "device.label", "device.invite"]


def test_an_invitation_comes_with_the_command_to_paste(
    fleet: Fleet, terminal: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = fleet.api.directory / "settings.toml"
    written = settings.read_text()
    assert fleet("device", "invite") == 0
    token = fleet.out.strip()
    assert "edge-runtime enrol --server https://localhost:8443 --token @FILE" in fleet.err
    assert "works on this machine alone: name the server first in hosts of settings.toml" in fleet.err
    assert token not in fleet.err, "stderr of a program is often a log"
    settings.write_text(re.sub(r"hosts = .*", 'hosts = ["fleet.example"]', written))
    terminal()
    assert fleet("device", "invite") == 0
    command = f"  edge-runtime enrol --server https://fleet.example:8443 --token {fleet.out.strip()}"
    assert fleet.err.splitlines()[1:] == [command]
    monkeypatch.setenv("FLEET_LISTEN", "0.0.0.0:0")
    assert fleet.json("device", "invite")["server"] is None
    assert fleet("device", "invite") == 0
    assert "URL is not known: http.port in settings.toml is 0 and no server runs" in fleet.err


def test_serial_numbers_come_from_a_file(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "serials"
    file.write_text("SN-1\n\nSN-2\nSN-1\n")
    assert fleet.json("device", "invite", "--serials", str(file), "--expires", "30d")["uses"] == 2
    file.write_text("")
    assert fleet("device", "invite", "--serials", str(file)) == 2
    assert fleet("device", "invite", "--serials", str(tmp_path / "none")) == 2


def test_a_held_item_is_released_by_the_end_of_its_key(fleet: Fleet) -> None:
    first, second = fleet.api.hold("dock-1", 2)
    assert fleet("review", "list") == 0
    assert first[-12:] in fleet.out
    found = fleet.json("review", "release", first[-12:], "--reason", "seen", "--wait", "0")
    assert (found["kind"], found["state"]) == ("release_held", "queued")
    assert fleet("review", "release", first[-12:], "--reason", "again", "--wait", "0") == 1
    assert fleet("review", "drop", second, "--reason", "nothing on it", "--wait", "1") == 1
    assert "has not answered" in fleet.err
    with fleet.api.write() as session:
        session.execute(text("UPDATE commands SET state = 'failed', result = 'policy forbids it'"))
    assert fleet("review", "list") == 0
    assert "failed" in fleet.out


def test_an_unexplained_event_is_loud(fleet: Fleet) -> None:
    dock = DeviceRig("dock-1")
    fleet.api.deliver(dock, {})
    fleet.api.take(dock.sync(2, Ledger(accepted=9, delivered=9)))
    assert fleet("health") == 1
    assert "UNEXPLAINED EVENTS: 8" in fleet.out
    assert "WARNING    dock-1: 8 events" in fleet.out


def test_a_changed_audit_is_found(fleet: Fleet) -> None:
    fleet("device", "label", "dock-1", "a=b")
    assert fleet("audit", "verify") == 0
    assert fleet.out.startswith("whole: 1 entries")
    with fleet.api.write() as session:  # as somebody with the file would: the database itself forbids it
        triggers = session.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all()
        for (trigger,) in triggers:
            session.execute(text(f"DROP TRIGGER {trigger}"))
        session.execute(text("UPDATE audit SET actor = 'somebody else'"))
    assert fleet("audit", "verify") == 1
    assert fleet.err.startswith("BROKEN at entry 1")
    assert fleet("audit", "list") == 0


def test_over_the_network_with_a_role_and_without(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = str(fleet.api.client(Role.VIEWER).headers["authorization"]).removeprefix("Bearer ")
    file = tmp_path / "token"
    file.write_text(viewer)
    monkeypatch.delenv("FLEET_DATA")
    authority = str(fleet.api.directory / "authority/ca.pem")
    with served(fleet.api) as url:
        options = ["--server", url, "--token-file", str(file), "--ca", authority]
        assert fleet("events", "list", *options) == 0
        assert LONG[:5] in fleet.out
        assert fleet("events", "tail", "--count", "2", "--json", *options) == 0
        assert len(fleet.out.splitlines()) == 2
        assert fleet("device", "revoke", "dock-1", *options) == 5
        assert "needs the role operator" in fleet.err
        file.write_text(viewer[:-1] + ("A" if viewer[-1] != "A" else "B"))
        assert fleet("events", "list", *options) == 5
        assert viewer[-10:-1] not in fleet.err
        assert fleet("events", "list", *options[:4]) == 4
        assert "--ca" in fleet.err
    assert fleet("events", "list", *options) == 4
    assert fleet.err.count("\n") == 1
