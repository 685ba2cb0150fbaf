"""Policy files: every problem with its line, and a file that is followed through its edits."""

import os
import stat
from pathlib import Path

import pytest

from edge_runtime.config import InvalidConfig
from edge_runtime.config.sentences import MAX_FINDINGS
from edge_runtime.gate.places import (
    configuration_place,
    note_configuration_place,
    note_policy_place,
    policy_place,
)
from edge_runtime.gate.policy_file import (
    MAX_FILE_BYTES,
    MAX_VALUES,
    PolicyFile,
    read_policy,
)
from edge_runtime.protocol import Reason
from edge_runtime.state import StateDirectory
from tests.conftest import REPOSITORY
from tests.rigs.events import FakeClock
from tests.rigs.gate import POLICY

READY = sorted((REPOSITORY / "deploy" / "policies").glob("*.yaml"))


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_the_policies_that_are_shipped_are_valid(path: Path) -> None:
    assert read_policy(path).name.replace("-", "_") == path.stem


def test_two_are_shipped() -> None:
    assert [path.stem for path in READY] == ["offline_first", "site_standard"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "p.yaml: is empty; edge-runtime gate starter prints a policy"),
        ("- a", "must be a section, not a list"),
        ("name: [", "p.yaml:1: "),
        ("version: 1\npermits: [x\n", "p.yaml:2: "),
        ("name: a\nname: b", "p.yaml:2: name: is given twice; the first is on line 1"),
        ("name: x\nrecipient: {}", "p.yaml:2: recipient: is not a known key; did you mean recipients?"),
        ("version: 2\nname: x", "p.yaml:1: version: must be 1, not 2"),
        ("name: x\nrecipients:\n  Fleet: {place: cloud, accepts: [], purposes: [a]}", "1 to 64 of a-z"),
        (
            POLICY.replace("to: [fleet]", "to: [flet]"),
            "p.yaml:7: permits[0].to[0]: there is no recipient named flet",
        ),
        (POLICY.replace("warning}", "high}"), "must be one of info, notice, warning, critical, not 'high'"),
        (
            POLICY.replace("[internal], sev", "[unknown], sev"),
            "p.yaml:6: permits[0].when.classes[0]: cannot be unknown",
        ),
        (
            POLICY.replace("redacted", "blurred"),
            "p.yaml:9: permits[0].evidence: must be one of none, redacted, crop",
        ),
        (
            POLICY.replace("purpose: safety", "purpose: training"),
            "no recipient of this permit takes the purpose",
        ),
        (POLICY.replace('{rules: ["heartbeat*"]}', "{}"), "p.yaml:11: keep[0]: needs at least one condition"),
        (POLICY + "forbid: []\n", "forbid: is not a known key"),
        (POLICY.replace("name: alerts", "name: 5"), "permits[0].name: must be text, not a number"),
    ],
)
def test_problems_say_where_and_what(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(InvalidConfig) as error:
        read_policy(path)
    assert says in str(error.value)
    assert len(error.value.problems) == 1
    assert error.value.exit_code == 2


def test_files_that_are_none(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(InvalidConfig) as error:
            read_policy(path)
        return str(error.value)

    assert "there is no such file" in said(tmp_path / "none.yaml")
    assert "is a folder" in said(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe" in said(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in said(tmp_path / "binary")
    (tmp_path / "large").write_text("#" * (MAX_FILE_BYTES + 1))
    assert "is larger than" in said(tmp_path / "large")
    assert "cannot be read" in said(tmp_path / "a\0b")


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"a{number}: 1\n" for number in range(20_000)),
        "permits:\n" + "".join(f"- {{a: {number}}}\n" for number in range(20_000)),
        f"permits: [{'1,' * 100_000}]\n",
        f"keep: [{{rules: [{'x,' * 100_000}]}}]\n",
        "recipients:\n" + "".join(f"  r{number}: 1\n" for number in range(20_000)),
        "a: 1\n" * 50_000,
    ],
)
def test_reading_ends_where_no_policy_is_so_long(text: str, tmp_path: Path) -> None:
    """Whoever decides waits for the reader: 20,000 keys that nobody knows took it six seconds."""
    path = tmp_path / "p.yaml"
    path.write_text(f"version: 1\nname: long\n{text}")
    with pytest.raises(InvalidConfig, match=f"holds more than {MAX_VALUES} keys and values") as error:
        read_policy(path)
    assert len(error.value.problems) == 1


def test_the_longest_policy_that_means_something_is_read(tmp_path: Path) -> None:
    when = (
        "when: {classes: [internal], cameras: [a, b], rules: [c, d], labels: [e], severity_at_least: notice}"
    )
    rest = "to: [fleet], purpose: safety, evidence: none, coalesce: 60, budget: {events_per_hour: 60}"
    permits = "".join(f"- {{name: p{number}, {when}, {rest}}}\n" for number in range(256))
    path = tmp_path / "p.yaml"
    path.write_text(
        "version: 1\nname: long\n"
        "recipients: {fleet: {place: organisation, accepts: [internal], purposes: [safety]}}\n"
        f"permits:\n{permits}"
    )
    assert len(read_policy(path).permits) == 256


def test_findings_of_a_hopeless_file_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\nname: long\n" + "".join(f"a{number}: 1\n" for number in range(5000)))
    with pytest.raises(InvalidConfig) as error:
        read_policy(path)
    assert len(error.value.problems) == MAX_FINDINGS


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        POLICY.replace("to: [fleet]", "to: [x]").replace("redacted", "all").replace("version", "v")
    )
    with pytest.raises(InvalidConfig) as error:
        read_policy(path)
    assert [problem.path for problem in error.value.problems] == ["permits[0].to[0]", "permits[0].evidence"]


class Follower:
    """A file that is written, and looked at when the clock has moved."""

    def __init__(self, folder: Path, text: str | None = POLICY) -> None:
        self.path = folder / "policy.yaml"
        if text is not None:
            self.path.write_text(text)
        self.clock = FakeClock()
        self.file = PolicyFile(self.path, self.clock)

    def name_after(self, seconds: float) -> str:
        self.clock.pass_s(seconds)
        in_force = self.file.in_force()
        return in_force.without.value if in_force.policy is None else in_force.policy.name


def test_a_change_counts_once_the_file_is_left_alone(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.name_after(0) == "site"
    follower.path.write_text(POLICY.replace("name: site", "name: half"))
    assert follower.name_after(0.1) == "site"  # not looked at yet
    assert follower.name_after(0.3) == "site"  # seen, and perhaps still being written
    follower.path.write_text(POLICY.replace("name: site", "name: whole"))
    assert follower.name_after(0.9) == "site"
    assert follower.name_after(0.3) == "site"  # it changed again: the wait began anew
    assert follower.name_after(1.0) == "whole"


def test_a_broken_or_missing_file_takes_the_policy_away_and_a_good_one_brings_it_back(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.path.write_text(POLICY + "nonsense: 1\n")
    follower.name_after(0.3)
    assert follower.name_after(1.1) == Reason.POLICY_UNREADABLE.value
    assert "nonsense" in follower.file.in_force().trouble[0]
    follower.path.write_text(POLICY)
    assert follower.name_after(0.3) == "site"  # from nothing to something there is nothing to wait for
    follower.path.unlink()
    assert follower.name_after(0.3) == Reason.NO_POLICY.value
    follower.path.mkdir()
    assert follower.name_after(0.3) == Reason.POLICY_UNREADABLE.value


def test_a_file_without_permission_is_unreadable_not_missing(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    follower = Follower(folder)
    if os.geteuid() == 0:
        follower.path.unlink()
        os.mkfifo(follower.path)  # root reads everything; a pipe can be read by nobody who must not wait
    else:
        folder.chmod(0)
    try:
        follower.name_after(0.3)
        assert follower.name_after(1.2) == Reason.POLICY_UNREADABLE.value
    finally:
        folder.chmod(stat.S_IRWXU)


def test_the_policy_that_the_fleet_assigned_holds_as_long_as_there_is_one(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assigned = tmp_path / "updates" / "policy.yaml"
    assigned.parent.mkdir()
    follower.file = PolicyFile(follower.path, follower.clock, assigned)
    assert follower.name_after(0.3) == "site"
    assigned.write_text(POLICY.replace("name: site", "name: fleet"))
    follower.name_after(0.3)
    assert follower.name_after(1.1) == "fleet"
    assert follower.file.path == assigned
    follower.path.write_text(POLICY.replace("name: site", "name: edited"))
    follower.name_after(0.3)
    assert follower.name_after(1.1) == "fleet", "the device's own waits for its turn"
    assigned.unlink()
    follower.name_after(0.3)
    assert follower.name_after(1.1) == "edited"
    assert follower.file.path == follower.file.own == follower.path


def test_commands_find_the_policy_that_the_fleet_assigned(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    note_policy_place(state, tmp_path / "elsewhere.yaml")
    state.assigned_policy.write_text(POLICY)
    assert policy_place(state) == state.assigned_policy
    state.assigned_policy.unlink()
    assert policy_place(state) == tmp_path / "elsewhere.yaml"


def test_it_is_read_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edge_runtime.gate import policy_file

    follower = Follower(tmp_path)
    reads: list[Path] = []
    monkeypatch.setattr(policy_file, "read_policy", reads.append)
    for _ in range(20):
        assert follower.name_after(0.5) == "site"
    assert reads == []


def test_commands_find_the_policy_of_the_gate(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    assert policy_place(state) == state.policy
    note_policy_place(state, tmp_path / "elsewhere.yaml")
    assert policy_place(state) == tmp_path / "elsewhere.yaml"
    (state.run / "policy.place").write_bytes(b"\xff")
    assert policy_place(state) == state.policy
    note_policy_place(StateDirectory(tmp_path / "none"), tmp_path)  # no state yet: nothing happens
    assert configuration_place(state) is None
    note_configuration_place(state, tmp_path / "site.yaml")
    assert configuration_place(state) == tmp_path / "site.yaml"
    assert {path.name for path in state.run.iterdir()} == {"policy.place", "configuration.place"}


def test_a_file_that_breaks_its_reader_holds_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(tmp_path)
    assert follower.name_after(0) == "site"

    def broken(_path: Path) -> None:
        raise IndexError("a defect of ours")

    monkeypatch.setattr("edge_runtime.gate.policy_file.read_policy", broken)
    follower.path.write_text(POLICY + "\n")
    follower.name_after(1)
    assert follower.name_after(2) == "policy_unreadable"
