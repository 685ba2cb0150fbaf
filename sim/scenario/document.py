"""A scenario's file: TOML, every problem with its line, nothing unknown accepted."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from edge_runtime.errors import ConfigError
from sim.scenario.faults import disturbs, fault_problem
from sim.scenario.measures import measure_problem
from sim.scenario.protections import WITHOUT
from sim.scenario.records import Rig, Scenario
from sim.toml_file import Location, read_toml

FOLDER = Path(__file__).parents[1] / "scenarios"

_OF_SIM = ("heat", "air", "warms")
"""What only a simulated device has."""


class BadScenario(ConfigError):
    """The file is no scenario; each line of the text is one problem with its place."""


def scenario_files(folder: Path = FOLDER) -> list[Path]:
    """The scenarios that come with the project, by name."""
    return sorted(folder.glob("*.toml"))


def read_scenario(path: Path) -> Scenario:
    """Read and check one file.

    Raises:
        BadScenario: it cannot be read, is no TOML, or says what no scenario says.
    """
    file = read_toml(path, Scenario, BadScenario)
    problems = list(_contradictions(file.record, path))
    if problems:
        raise BadScenario(file.told(problems))
    return file.record


def _contradictions(scenario: Scenario, path: Path) -> Iterator[tuple[Location, str]]:
    """What one field alone cannot say."""
    if scenario.name != path.stem:
        yield ("name",), f"is {scenario.name}, and the file is called {path.stem}"
    yield from _fault_problems(scenario)
    names = {fault.name for fault in scenario.fault}
    for index, expectation in enumerate(scenario.expect):
        if expectation.after is not None and expectation.after not in names:
            yield ("expect", index, "after"), f"there is no fault named {expectation.after}"
        problem = measure_problem(expectation, scenario.rigs)
        if problem:
            yield ("expect", index, "measure"), problem
    yield from _rig_problems(scenario)
    for rig in get_args(Rig):
        yield from _mutant_problems(scenario, rig)


def _fault_problems(scenario: Scenario) -> Iterator[tuple[Location, str]]:
    for index, fault in enumerate(scenario.fault):
        before = scenario.fault[:index]
        if any(fault.name == other.name for other in before):
            yield ("fault", index, "name"), f"{fault.name} is the name of two faults"
        if fault.at + (fault.lasts or 0) > scenario.duration:
            yield ("fault", index, "at"), "is not over when the scenario ends"
        for rig in scenario.rigs:
            problem = fault_problem(fault, rig)
            if problem:
                yield ("fault", index, "kind"), problem
        for other in before:
            if disturbs(other, fault, scenario.duration):
                yield (
                    ("fault", index, "at"),
                    f"overlaps with {other.name}: the end of one would undo the other",
                )


def _rig_problems(scenario: Scenario) -> Iterator[tuple[Location, str]]:
    """What a rig would not obey."""
    device = scenario.device
    if "local" in scenario.rigs:
        for field in _OF_SIM:
            if field in device.model_fields_set:
                yield ("device", field), "rig local has no such device"
    elif "local_fps" in device.model_fields_set:
        yield ("device", "local_fps"), "the scenario is not for rig local"
    if any(fault.unit == "release" for fault in scenario.fault) and not device.updates:
        yield ("device", "updates"), "has to be true where a release is assigned"
    if "sim" not in scenario.rigs and "step" in scenario.model_fields_set:
        yield ("step",), "rig local runs in real time, and has no steps"


def _mutant_problems(scenario: Scenario, rig: Rig) -> Iterator[tuple[Location, str]]:
    """A rig runs it or has a reason not to, and has a mutant that it notices or a reason why there is none."""
    runs, missed = rig in scenario.rigs, scenario.protections.get(rig, {})
    if runs == (rig in scenario.not_on):
        yield ("not_on",), f"rig {rig} has to be among rigs, or here with a reason, and not both"
    if not runs and (missed or rig in scenario.no_mutant_on):
        yield ("protections",), f"the scenario is not for rig {rig}"
    elif runs and bool(missed) == (rig in scenario.no_mutant_on):
        yield ("protections",), f"rig {rig} has to have some, or a reason in no_mutant_on, and not both"
    expected = {one.measure for one in scenario.expect if rig in (one.rigs or scenario.rigs)}
    for protection, measures in missed.items():
        if rig not in WITHOUT[protection]:
            yield ("protections", rig, protection), f"rig {rig} cannot do without it"
        for measure in measures:
            if measure not in expected:
                yield (
                    ("protections", rig, protection),
                    f"{measure} is not expected in rig {rig}, and cannot fail there",
                )
