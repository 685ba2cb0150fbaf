"""A scenario's file: TOML, every problem with its line, nothing unknown accepted."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from edge_runtime.errors import ConfigError
from sim.scenario.faults import disturbs, fault_problem
from sim.scenario.measures import measure_problem
from sim.scenario.records import Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[1] / "scenarios"
_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.]+)\s*\]\]?")
_KEY = re.compile(r"\s*([A-Za-z0-9_]+)\s*=")

LOCAL_FPS = 2.0
"""The most that rig `local` plays: two busy cores have to keep up with it, and speed is not what it measures."""

_OF_SIM = ("body", "battery", "battery_lasts", "pose", "heat", "air", "warms")
"""What only a simulated device has."""

Location = tuple[str | int, ...]


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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(f"{path}: {error}") from None
    lines = _lines(text)
    try:
        found = Scenario.model_validate(data)
    except ValidationError as error:
        problems = [(_place(item["loc"], data), _sentence(item)) for item in error.errors()]
        raise BadScenario(_text(path, lines, problems)) from None
    problems = list(_contradictions(found, path))
    if problems:
        raise BadScenario(_text(path, lines, problems))
    return found


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
    expected = {one.measure for one in scenario.expect if "sim" in (one.rigs or scenario.rigs)}
    for protection, measures in scenario.protections.items():
        for measure in measures:
            if measure not in expected:
                yield (
                    ("protections", protection),
                    f"{measure} is not expected in rig sim, and cannot fail there",
                )


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
        if not 0 < device.camera_fps <= LOCAL_FPS:
            yield ("device", "camera_fps"), f"rig local takes more than 0 and at most {LOCAL_FPS:g}"
    if "sim" not in scenario.rigs and "step" in scenario.model_fields_set:
        yield ("step",), "rig local runs in real time, and has no steps"


def _text(path: Path, lines: dict[Location, int], problems: Sequence[tuple[Location, str]]) -> str:
    told = []
    for place, sentence in problems:
        at = place
        while at and at not in lines:
            at = at[:-1]
        line = f":{lines[at]}" if at else ""
        told.append(f"{path}{line}: {'.'.join(map(str, place)) or 'the file'}: {sentence}")
    return "\n".join(told)


def _place(found: Sequence[str | int], data: Any) -> Location:
    """Pydantic's location without the words that it adds for kinds of values."""
    place: list[str | int] = []
    for part in found:
        known = isinstance(data, dict) or (isinstance(data, list) and isinstance(part, int))
        if not known:
            break
        place.append(part)
        try:
            data = data[part]
        except (KeyError, IndexError):
            break
    return tuple(place)


def _sentence(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "is nothing that a scenario knows here"
    if item["type"] == "missing":
        return "is missing"
    text: str = item["msg"]
    return text.removeprefix("Value error, ")


def _lines(text: str) -> dict[Location, int]:
    """Lines of tables and keys. Keys of a table that is written in one line have that line."""
    found: dict[Location, int] = {}
    counts: dict[str, int] = {}
    here: Location = ()
    for number, line in enumerate(text.split("\n"), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            name = header[2]
            here = tuple(name.split("."))
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
                here = (*here, counts[name])
            found.setdefault(here, number)
        elif key is not None:
            found.setdefault((*here, key[1]), number)
    return found
