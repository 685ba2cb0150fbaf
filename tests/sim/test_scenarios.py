"""Scenarios on both rigs: each passes, and fails when its protection is taken away.

The short form runs a few; `trial` runs every one with every protection that it names, on each of its rigs.
"""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import get_args

import pytest

from sim.__main__ import main
from sim.rigs import run
from sim.scenario.document import FOLDER, read_scenario, scenario_files
from sim.scenario.protections import WITHOUT
from sim.scenario.records import Expectation, Fault, Protection, Rig, Scenario

SHORT = ("guard_stopped",)
SCENARIOS = {path.stem: read_scenario(path) for path in scenario_files()}
RUNS = [(one, rig) for one in SCENARIOS.values() for rig in one.rigs]
MUTANTS = [
    (one, rig, protection)
    for one in SCENARIOS.values()
    for rig, missed in one.protections.items()
    for protection in missed
]


def marks(scenario: Scenario, rig: Rig) -> tuple[pytest.MarkDecorator, ...]:
    """On real processes each takes a minute or two."""
    if rig == "local":
        return (pytest.mark.trial, pytest.mark.timeout(1200))
    return () if scenario.name in SHORT else (pytest.mark.trial,)


@pytest.mark.parametrize(
    ("scenario", "rig"),
    [pytest.param(one, rig, id=f"{one.name}-{rig}", marks=marks(one, rig)) for one, rig in RUNS],
)
def test_it_passes(scenario: Scenario, rig: Rig, tmp_path: Path) -> None:
    done = run(scenario, rig, [], tmp_path)
    assert done.passed, [finding.text for finding in done.findings if not finding.met] or done.broke


@pytest.mark.parametrize(
    ("scenario", "rig", "protection"),
    [
        pytest.param(one, rig, name, id=f"{one.name}-{rig}-{name}", marks=marks(one, rig))
        for one, rig, name in MUTANTS
    ],
)
def test_it_fails_without_its_protection(
    scenario: Scenario, rig: Rig, protection: Protection, tmp_path: Path
) -> None:
    done = run(scenario, rig, [protection], tmp_path)
    assert not done.broke, "a mutant has to be noticed by what is measured"
    failed = {finding.expected.measure for finding in done.findings if not finding.met}
    missed = scenario.protections[rig][protection]
    assert failed >= set(missed), "not for the reason that the scenario names"


def test_each_protection_is_missed_by_a_scenario_of_each_rig_that_can_do_without_it() -> None:
    named = {(name, rig) for _, rig, name in MUTANTS}
    assert named == {(name, rig) for name, ways in WITHOUT.items() for rig in ways}
    assert set(WITHOUT) == set(get_args(Protection))


@pytest.mark.timeout(900)
def test_a_cart_of_real_processes_stands_when_its_guard_is_killed_and_loses_no_event(tmp_path: Path) -> None:
    """The short form of three scenarios, in one run: link_cut, guard_killed, guard_killed_still."""
    whole = SCENARIOS["guard_killed"]
    faults = (
        Fault(name="pulled", at=0.5, lasts=2, unit="link", kind="lost"),
        Fault(name="kill", at=4, unit="guard", kind="killed"),
    )
    expected = (
        Expectation(measure="moving", after="kill", at_most=1.0, unit="s"),
        Expectation(measure="breaks", at_least=1, unit="times"),
        Expectation(measure="accepted", at_least=4, unit="events"),
        Expectation(measure="lost", at_most=0, unit="events"),
        Expectation(measure="duplicates", at_most=0, unit="events"),
    )
    device = whole.device.model_copy(update={"events_per_minute": 120.0})
    changed = {"fault": faults, "expect": expected, "duration": 8.0, "device": device}
    done = run(whole.model_copy(update=changed), "local", [], tmp_path)
    assert done.passed, [finding.text for finding in done.findings] or done.broke
    assert done.trace is not None
    ways = [value for _, value in done.trace.series["speed"].points]
    assert ways[-1] == 0.0, "it drives on"


def test_the_same_scenario_gives_the_same_measurements(tmp_path: Path) -> None:
    whole = SCENARIOS["guard_stopped"]
    fault = whole.fault[0].model_copy(update={"at": 1.0, "lasts": 2.0})
    scenario = whole.model_copy(update={"duration": 4.0, "fault": (fault,)})
    first, second = (run(scenario, "sim", [], tmp_path) for _ in range(2))
    assert [one.measured for one in first.findings] == [one.measured for one in second.findings]


def test_the_command_line_reports_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(FOLDER / "policy_missing.toml")
    assert main(["run", file, "--report", str(tmp_path)]) == 0
    assert "passed  policy_missing on sim" in capsys.readouterr().out
    assert main(["run", file, "--without", "policy_gate", "--report", str(tmp_path)]) == 1
    assert "NOT  left: 40 events (at most 0 events)" in capsys.readouterr().out
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert not report["passed"]
    (one,) = report["runs"]
    assert one["without"] == ["policy_gate"]
    left = next(row for row in one["expectations"] if row["measure"] == "left")
    assert (left["measured"], left["at_most"], left["unit"], left["met"]) == (40.0, 0.0, "events", False)
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    assert suite.get("name") == "sim.policy_missing-without-policy_gate"
    assert int(suite.get("failures", 0)) == len(suite.findall("./testcase/failure")) >= 1
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "policy_missing" in page
    assert page.count("<svg") == page.count("</svg>") >= 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "missing.toml"], "missing.toml: cannot be read: No such file"),
        (
            ["run", str(FOLDER / "link_lost_day.toml"), "--rig", "local"],
            "link_lost_day is not for rig local: it would take the day",
        ),
        (
            ["run", str(FOLDER / "clock_step.toml"), "--fault", "x"],
            "clock_step has no fault x; it has no_link",
        ),
        (
            ["run", str(FOLDER / "link_cut.toml"), "--rig", "local", "--without", "outbox"],
            "rig local cannot do without outbox; rig sim can",
        ),
        (
            ["run", str(FOLDER / "policy_missing.toml"), "--report", __file__],
            "test_scenarios.py: cannot be written to: File exists",
        ),
        (
            ["run", str(FOLDER / "policy_missing.toml"), "--report", "/proc/none"],
            "/proc/none: cannot be written to",
        ),
        (
            ["run", str(FOLDER / "policy_missing.toml"), "--keep", __file__],
            "test_scenarios.py: cannot be written to",
        ),
        (
            ["run", str(FOLDER / "policy_missing.toml"), str(FOLDER / "clock_step.toml"), "--fault", "gone"],
            "clock_step has no fault gone",
        ),
        (
            ["run", str(FOLDER / "link_cut.toml"), str(FOLDER / "throttling.toml"), "--rig", "local"],
            "throttling is not for rig local",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert not told.out, "nothing was run before"


def test_list_and_words_name_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert main(["words"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in SCENARIOS)
    assert "without  lease on sim: a permission to move lasts until it is taken away" in told
    assert "not on local: it would take the day that it is about" in told
    assert "fails on local without guard, service_manager" in told
    assert "nothing is taken away on local: no profile may ignore a worker that died" in told
