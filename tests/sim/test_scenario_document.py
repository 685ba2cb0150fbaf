"""A scenario's file: what is wrong with it is told with its line, and nothing unknown is accepted."""

from pathlib import Path

import pytest

from sim.scenario.document import BadScenario, read_scenario, scenario_files
from sim.scenario.faults import WORLD
from sim.scenario.measures import MEASURES

GOOD = """\
name = "one"
title = "t"
about = "a"
rigs = ["sim"]
duration = 10

[[fault]]
name = "cable"
at = 1
lasts = 2
unit = "camera"
kind = "off"

[[expect]]
measure = "lost"
at_most = 0
unit = "events"
"""


def read(folder: Path, text: str) -> str:
    path = folder / "one.toml"
    path.write_text(text, encoding="utf-8")
    try:
        read_scenario(path)
    except BadScenario as error:
        return str(error).replace(str(folder) + "/", "")
    return ""


def test_a_good_one_is_read(tmp_path: Path) -> None:
    assert not read(tmp_path, GOOD)


def test_every_scenario_of_the_project_is_good() -> None:
    scenarios = [read_scenario(path) for path in scenario_files()]
    assert len(scenarios) >= 15
    for scenario in scenarios:
        assert scenario.protections or "sim" not in scenario.rigs, "it needs a mutant under which it fails"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "t"\n', "", "one.toml: title: is missing"),
        ("duration = 10", "duration = 0", "one.toml:5: duration: Input should be greater than 0"),
        (
            "lasts = 2",
            "lasts = 2\nhard = true",
            "one.toml:11: fault.0.hard: is nothing that a scenario knows here",
        ),
        ("[[expect]]", "[world]\nsun = 1\n[[expect]]", "one.toml:15: world.sun: is nothing"),
        ("lasts = 2", "lasts = 12", "one.toml:9: fault.0.at: is not over when the scenario ends"),
        ('name = "one"', 'name = "two"', "one.toml:1: name: is two, and the file is called one"),
        ('kind = "off"', 'kind = "explode"', "one.toml:12: fault.0.kind: there is no fault 'explode'"),
        (
            'unit = "camera"',
            'unit = "guard"',
            "fault.0.kind: guard off is no fault; of guard there are stopped",
        ),
        ('unit = "camera"', 'unit = "disk"', "needs lasts"),
        ('"lost"', '"luck"', "one.toml:15: expect.0.measure: there is no measure luck; measures are"),
        ('"lost"', '"reaction"', "expect.0.measure: reaction needs after and states"),
        ('unit = "events"', 'unit = "s"', "lost is measured in events, not in s"),
        ("at_most = 0\n", "", "needs at_least or at_most"),
        ("at_most = 0", 'at_most = 0\nafter = "x"', "expect.0.after: there is no fault named x"),
        ("duration = 10", "duration = ", "one.toml: Invalid value"),
        ('["sim"]', '["sim", "bench"]', "one.toml:4: rigs.1: Input should be 'sim' or 'local'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    if says == "needs lasts":
        text = text.replace("lasts = 2\n", "")
    assert says in read(tmp_path, text)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD.replace('"lost"', '"luck"').replace('kind = "off"', 'kind = "explode"'))
    assert len(found.split("\n")) == 2


def test_a_fault_that_a_rig_cannot_bring_about_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace('["sim"]', '["local"]').replace('unit = "camera"', 'unit = "clock"')
    assert "clock steps cannot be brought about in rig local" in read(
        tmp_path, text.replace('"off"', '"steps"')
    )


@pytest.mark.parametrize(
    ("kind", "amount", "says"),
    [
        ("flapping", "0", "link flapping comes again after at least 0.1 s"),
        ("flapping", "nan", "fault.0.amount: Input should be a finite number"),
        ("lost", "1", "link lost takes no amount"),
    ],
)
def test_amounts_of_the_worlds_faults(tmp_path: Path, kind: str, amount: str, says: str) -> None:
    text = GOOD.replace('unit = "camera"', f'unit = "link"\namount = {amount}').replace('"off"', f'"{kind}"')
    assert says in read(tmp_path, text)


def test_words_are_not_empty() -> None:
    assert all(fault.rigs for fault in WORLD.values())
    assert all(measure.unit and measure.text for measure in MEASURES.values())
