"""Scenarios on the simulated rig: each passes, and fails when its protection is taken away.

The short form runs a few; `trial` runs every one with every protection that it names, and those of rig `local`.
"""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import get_args

import pytest

from sim.__main__ import main
from sim.rigs import run
from sim.scenario.document import FOLDER, read_scenario, scenario_files
from sim.scenario.records import Protection, Scenario

SHORT = ("guard_stopped",)
SCENARIOS = {path.stem: read_scenario(path) for path in scenario_files()}
SIMULATED = [one for one in SCENARIOS.values() if "sim" in one.rigs]
MUTANTS = [(one, protection) for one in SIMULATED for protection in one.protections]


def marks(scenario: Scenario) -> tuple[pytest.MarkDecorator, ...]:
    return () if scenario.name in SHORT else (pytest.mark.trial,)


@pytest.mark.parametrize("scenario", [pytest.param(one, id=one.name, marks=marks(one)) for one in SIMULATED])
def test_it_passes(scenario: Scenario, tmp_path: Path) -> None:
    done = run(scenario, "sim", [], tmp_path)
    assert done.passed, [finding.text for finding in done.findings if not finding.met] or done.broke


@pytest.mark.parametrize(
    ("scenario", "protection"),
    [pytest.param(one, name, id=f"{one.name}-{name}", marks=marks(one)) for one, name in MUTANTS],
)
def test_it_fails_without_its_protection(scenario: Scenario, protection: Protection, tmp_path: Path) -> None:
    done = run(scenario, "sim", [protection], tmp_path)
    assert not done.broke, "a mutant has to be noticed by what is measured"
    failed = {finding.expected.measure for finding in done.findings if not finding.met}
    assert failed >= set(scenario.protections[protection]), "not for the reason that the scenario names"


def test_each_protection_is_missed_by_a_scenario() -> None:
    named = {name for scenario in SIMULATED for name in scenario.protections}
    assert named == set(get_args(Protection))


@pytest.mark.trial
@pytest.mark.parametrize(
    "scenario", [pytest.param(one, id=one.name) for one in SCENARIOS.values() if "local" in one.rigs]
)
def test_it_passes_on_real_processes(scenario: Scenario, tmp_path: Path) -> None:
    done = run(scenario, "local", [], tmp_path)
    assert done.passed, [finding.text for finding in done.findings if not finding.met] or done.broke


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
        (["run", str(FOLDER / "clock_step.toml"), "--rig", "local"], "clock_step is not for rig local"),
        (
            ["run", str(FOLDER / "clock_step.toml"), "--fault", "x"],
            "clock_step has no fault x; it has no_link",
        ),
        (
            ["run", str(FOLDER / "link_cut.toml"), "--rig", "local", "--without", "outbox"],
            "protections are taken away in rig sim alone",
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
            ["run", str(FOLDER / "link_cut.toml"), str(FOLDER / "clock_step.toml"), "--rig", "local"],
            "clock_step is not for rig local",
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
    assert "without  lease" in told
