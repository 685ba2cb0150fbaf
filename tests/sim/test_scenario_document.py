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
protections.sim = { outbox = ["lost"] }
not_on.local = "nobody has brought it there"

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
        assert any(scenario.protections.values()), "it needs a mutant under which it fails"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "t"\n', "", "one.toml: title: is missing"),
        ("duration = 10", "duration = 0", "one.toml:5: duration: Input should be greater than 0"),
        (
            "lasts = 2",
            "lasts = 2\nhard = true",
            "one.toml:13: fault.0.hard: is nothing that a scenario knows here",
        ),
        ("[[expect]]", "[world]\nsun = 1\n[[expect]]", "one.toml:17: world.sun: is nothing"),
        ("lasts = 2", "lasts = 12", "one.toml:11: fault.0.at: is not over when the scenario ends"),
        ('name = "one"', 'name = "two"', "one.toml:1: name: is two, and the file is called one"),
        ('kind = "off"', 'kind = "explode"', "one.toml:14: fault.0.kind: there is no fault 'explode'"),
        (
            'unit = "camera"',
            'unit = "guard"',
            "fault.0.kind: guard off is no fault; of guard there are stopped",
        ),
        ('unit = "camera"', 'unit = "disk"', "needs lasts"),
        (
            'measure = "lost"',
            'measure = "luck"',
            "one.toml:17: expect.0.measure: there is no measure luck; measures are",
        ),
        ('measure = "lost"', 'measure = "reaction"', "expect.0.measure: reaction needs after and states"),
        ('unit = "events"', 'unit = "s"', "lost is measured in events, not in s"),
        (
            'measure = "lost"',
            'measure = "trips"\ncondition = "source_stalld"',
            "one.toml:18: expect.0.condition: Input should be 'worker_dead'",
        ),
        (
            'unit = "events"',
            'unit = "events"\nrigs = ["local"]',
            "is expected in rig local, and the scenario is",
        ),
        (
            'outbox = ["lost"]',
            'lease = ["moving"]',
            "one.toml:6: protections.sim.lease: moving is not expected in rig sim, and cannot fail there",
        ),
        ('outbox = ["lost"]', 'luck = ["lost"]', "one.toml:6: protections.sim.luck"),
        ('outbox = ["lost"]', 'renewal = ["lost"]', "protections.sim.renewal: rig sim cannot do without it"),
        (
            'not_on.local = "nobody has brought it there"\n',
            "",
            "not_on: rig local has to be among rigs, or here with a reason, and not both",
        ),
        ('"nobody has brought it there"', '"no"', "one.toml:7: not_on.local: String should have at least 20"),
        (
            'protections.sim = { outbox = ["lost"] }\n',
            "",
            "protections: rig sim has to have some, or a reason in no_mutant_on, and not both",
        ),
        (
            "not_on.local",
            "no_mutant_on.local = 'nothing is taken away'\nnot_on.local",
            "protections: the scenario is not for rig local",
        ),
        (
            'unit = "camera"\nkind = "off"',
            'unit = "release"\nkind = "good"',
            "device.updates: has to be true where a release is assigned",
        ),
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
    text = GOOD.replace('measure = "lost"', 'measure = "luck"').replace('kind = "off"', 'kind = "explode"')
    assert len(read(tmp_path, text).split("\n")) == 3  # what a mutant should fail by is not expected either


def test_a_fault_that_a_rig_cannot_bring_about_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace('["sim"]', '["local"]').replace('unit = "camera"', 'unit = "air"')
    found = read(tmp_path, text.replace('"off"', '"warms"'))
    assert "air warms cannot be brought about in rig local" in found


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


LOCAL = GOOD.replace('["sim"]', '["sim", "local"]').replace(
    'not_on.local = "nobody has brought it there"', 'no_mutant_on.local = "nothing can be taken away"'
)


@pytest.mark.parametrize(
    "field",
    [
        "heat = true",
        "air = [20, 30]",
        "warms = 5",
    ],
)
def test_what_rig_local_would_not_obey_is_refused(tmp_path: Path, field: str) -> None:
    device = f"\n[device]\ncamera_fps = 2\n{field}\n"
    assert not read(tmp_path, GOOD + device)
    assert (
        read(tmp_path, LOCAL + device)
        == f"one.toml:23: device.{field.split(maxsplit=1)[0]}: rig local has no such device"
    )


def test_rig_local_plays_few_pictures(tmp_path: Path) -> None:
    assert not read(tmp_path, LOCAL + "[device]\ncamera_fps = 10\nlocal_fps = 2")
    assert "device.local_fps: Input should be less than" in read(
        tmp_path, LOCAL + "[device]\nlocal_fps = 2.1"
    )
    assert "device.local_fps: the scenario is not for rig local" in read(
        tmp_path, GOOD + "[device]\nlocal_fps = 1"
    )


def test_rig_local_alone_has_no_steps(tmp_path: Path) -> None:
    text = LOCAL.replace("duration = 10", "duration = 10\nstep = 0.05") + "[device]\ncamera_fps = 2"
    assert not read(tmp_path, text)
    assert "step: rig local runs in real time" in read(
        tmp_path, text.replace('["sim", "local"]', '["local"]')
    )


@pytest.mark.parametrize("name", [name for name, one in MEASURES.items() if len(one.rigs) == 1])
def test_a_measure_that_a_rig_has_not_is_refused_there(tmp_path: Path, name: str) -> None:
    (able,) = MEASURES[name].rigs
    unable = "local" if able == "sim" else "sim"
    text = LOCAL.replace(
        'protections.sim = { outbox = ["lost"] }', 'no_mutant_on.sim = "nothing can be taken away"'
    )
    text = text.replace('"lost"', f'"{name}"').replace('unit = "events"', f'unit = "{MEASURES[name].unit}"')
    text = text.replace("at_most = 0\n", 'at_most = 0\nafter = "cable"\n') + "%s[device]\ncamera_fps = 2"
    assert f"{name} is not measured in rig {unable}; say rigs = ['{able}']" in read(tmp_path, text % "")
    assert not read(tmp_path, text % f'rigs = ["{able}"]\n')


SECOND = """
[[fault]]
name = "second"
at = {at}
lasts = 3
unit = "{unit}"
kind = "{kind}"
"""


@pytest.mark.parametrize(
    ("unit", "kind", "at", "refused"),
    [
        ("camera", "off", 2.9, True),
        ("camera", "off", 3.0, False),
        ("camera", "stuck", 2.0, False),  # of two orders the later counts, and the first goes on
        ("lens", "covered", 2.0, False),
    ],
)
def test_faults_of_one_kind_do_not_overlap(
    tmp_path: Path, unit: str, kind: str, at: float, refused: bool
) -> None:
    found = read(tmp_path, GOOD + SECOND.format(unit=unit, kind=kind, at=at))
    assert found == (
        "one.toml:23: fault.1.at: overlaps with cable: the end of one would undo the other" * refused
    )


def test_faults_of_the_road_do_not_overlap(tmp_path: Path) -> None:
    text = GOOD.replace('"camera"', '"link"').replace('"off"', '"lost"')
    assert "overlaps with cable" in read(tmp_path, text + SECOND.format(unit="broker", kind="restarts", at=2))
    assert not read(tmp_path, text + SECOND.format(unit="broker", kind="restarts", at=4))


def test_words_are_not_empty() -> None:
    assert all(fault.rigs for fault in WORLD.values())
    assert all(measure.unit and measure.text for measure in MEASURES.values())
