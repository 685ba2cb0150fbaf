"""From what a person writes of a rollout, in a file or as options, to the record that the server takes.

A file has the record's own names without their units, and words for values: `soak: 1h` is `soak_s: 3600`, and
`share: 2%` is `basis_points: 200`. Options stand above the file. What can be said here is said here, with the line.
"""

import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from edge_runtime.document import Location
from edge_runtime.errors import ConfigError
from edge_runtime.protocol.release import ReleaseKind
from edge_runtime.protocol.update import CONFIGURATION_SLOT, kind_of
from fleet_server.cli import plan_words as words
from fleet_server.cli.plan_document import PlanDocument
from fleet_server.findings import what_is_wrong
from fleet_server.rollouts.plan_records import MemberDeadlines, RolloutPlan

_SHOWN = 5


class _Key(NamedTuple):
    """One key of a file: its name in the record, and what reads its value."""

    name: str
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _keys(*names: str) -> dict[str, _Key]:
    return {name: _Key(name, _same) for name in names}


RULES: Mapping[str, _Key] = {
    **_keys("min_devices", "max_bad"),
    "min_share": _Key("min_share", words.ratio),
    "max_bad_share": _Key("max_bad_share", words.ratio),
    "soak": _Key("soak_s", words.seconds),
    "max_wait": _Key("max_wait_s", words.seconds),
}
"""Of a stage, or under `rules` for every stage that does not say otherwise."""

STAGE: Mapping[str, _Key] = {
    **_keys("labels", "hardware"),
    "share": _Key("basis_points", words.basis_points),
    "not_before": _Key("not_before_ms", words.unix_ms),
}
PACING: Mapping[str, _Key] = {
    **_keys("max_in_flight"),
    "bytes_per_hour": _Key("bytes_per_hour", words.bytes_of),
}
DEADLINES: Mapping[str, _Key] = {
    name.removesuffix("_s"): _Key(name, words.seconds) for name in MemberDeadlines.model_fields
}
PLAN: Mapping[str, _Key] = {
    **_keys("name", "slot", "labels", "hardware", "on_fail", "converge", "values", "device_values", "notes"),
    "start_at": _Key("start_at_ms", words.unix_ms),
}
"""Of the whole, beside `release`, `stages`, `rules`, `windows`, `pacing` and `deadlines`."""

SECTIONS = ("release", "stages", "rules", "windows", "pacing", "deadlines")


def plan_of(document: PlanDocument, options: Mapping[str, Any]) -> RolloutPlan:
    """The plan that a file and options mean together.

    Args:
        document: of the file; one without data where there is none.
        options: in the words of a file, only those that were given; `rules` among them holds for every stage.

    Raises:
        ConfigError: it cannot be used as written; the message names the line where there is one.
    """
    if document.is_record:
        if options:
            raise ConfigError(
                f"{document.source}: a plan in JSON is whole: change it there, or give options alone"
            )
        record: Mapping[str, Any] = document.data
    else:
        reading = _Reading()
        record = reading.whole(_overlaid(document.data, options))
        _raise(document, reading.problems)
    try:
        return RolloutPlan.model_validate_json(_json(record))
    except ValidationError as error:
        found = [(_place(each["loc"], document), what_is_wrong(each)) for each in error.errors()]
        # a list whose entry is wrong is also called too short
        inner = {place[:depth] for place, _ in found for depth in range(len(place))}
        _raise(document, [(place, text) for place, text in found if place not in inner or not place])
        raise  # pragma: no cover - an error of validation has at least one finding


def _overlaid(data: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The file's keys with the options above them: an option of a rule also stands above each stage's own."""
    found = {**data, **options}
    rules = options.get("rules")
    if rules:
        found["rules"] = {**_table_or_none(data.get("rules")), **rules}
        stages = found.get("stages")
        if isinstance(stages, list):
            found["stages"] = [
                {key: value for key, value in stage.items() if key not in rules}
                if isinstance(stage, dict)
                else stage
                for stage in stages
            ]
    for name in ("pacing", "labels", "values"):
        if name in options:
            found[name] = {**_table_or_none(data.get(name)), **options[name]}
    return found


def _table_or_none(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


class _Reading:
    """Reads words, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[tuple[Location, str]] = []

    def whole(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a plan, as far as its words can be read."""
        own = {key: value for key, value in data.items() if key not in SECTIONS}
        found = self._table(own, PLAN, (), known=(*PLAN, *SECTIONS))
        found |= self._release(data, found.get("slot"))
        defaults = self._table(data.get("rules", {}), RULES, ("rules",))
        stages = self._list(data.get("stages"), ("stages",))
        found["stages"] = [
            self._stage(each, defaults, ("stages", number)) for number, each in enumerate(stages)
        ]
        if "windows" in data:
            windows = self._list(data["windows"], ("windows",))
            found["windows"] = [
                self._read(words.window, each, ("windows", number)) for number, each in enumerate(windows)
            ]
        for name, keys in (("pacing", PACING), ("deadlines", DEADLINES)):
            if name in data:
                found[name] = self._table(data[name], keys, (name,))
        return found

    def _release(self, data: Mapping[str, Any], slot: Any) -> dict[str, Any]:
        if "release" not in data:
            self.problems.append(((), "release is missing: models/NAME/COUNTER"))
            return {}
        found = self._read(words.release_of, data["release"], ("release",))
        if found is None:
            return {}
        named: dict[str, Any] = {"release": found["name"], "counter": found["counter"]}
        if "name" not in data:
            named["name"] = f"{found['name']} {found['counter']}"[:64]
        if slot is None:
            if found["kind"] is ReleaseKind.CONFIGURATION:
                return named | {"slot": CONFIGURATION_SLOT}
            self.problems.append(((), "slot is missing: the model's name in the devices' configuration"))
        elif isinstance(slot, str) and kind_of(slot) is not found["kind"]:
            self.problems.append((("slot",), f"takes another kind of release than a {found['kind'].value}"))
        return named

    def _stage(self, value: Any, defaults: Mapping[str, Any], place: Location) -> dict[str, Any]:
        data = value if isinstance(value, dict) else {"share": value}
        keys = (*STAGE, *RULES)
        found = self._table({key: data[key] for key in data if key not in RULES}, STAGE, place, known=keys)
        rules = self._table({key: data[key] for key in data if key in RULES}, RULES, place)
        return found | {"rules": {**defaults, **rules}}

    def _table(
        self, data: Any, keys: Mapping[str, _Key], place: Location, known: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.problems.append((place, "must be a table"))
            return {}
        found: dict[str, Any] = {}
        for name, value in data.items():
            inner = (*place, name)
            key = keys.get(name)
            if key is None:
                self.problems.append((inner, _unknown(name, known or tuple(keys))))
            else:
                found[key.name] = self._read(key.read, value, inner)
        return found

    def _list(self, data: Any, place: Location) -> list[Any]:
        if isinstance(data, list) and data:
            return data
        self.problems.append((place, "is missing" if data is None else "must be a list with something in it"))
        return []

    def _read(self, read: Callable[[Any], Any], value: Any, place: Location) -> Any:
        try:
            return read(value)
        except ValueError as error:
            self.problems.append((place, str(error)))
            return None


def _unknown(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"is not known here: did you mean {close[0]}?" if close else "is not known here"


_WORDS = {
    key.name: word
    for keys in (PLAN, STAGE, RULES, PACING, DEADLINES)
    for word, key in keys.items()
    if key.name != word
}
"""A record's names in the words of a file."""


def _place(loc: tuple[int | str, ...], document: PlanDocument) -> Location:
    """Where a finding about the record is in the file."""
    if document.is_record:
        return loc
    inner = loc if loc[:1] != ("stages",) else tuple(part for part in loc if part != "rules")
    return tuple(_WORDS.get(str(part), part) for part in inner if part != "[key]")


def _raise(document: PlanDocument, problems: list[tuple[Location, str]]) -> None:
    if not problems:
        return
    said = [f"{document.where(place)}{_name(place)}{text}" for place, text in problems[:_SHOWN]]
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    raise ConfigError("; ".join(dict.fromkeys(said)) + more)


def _name(place: Location) -> str:
    """`stages[2].soak` and a blank; people count from 1."""
    text = ""
    for part in place:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return f"{text[:80]} " if text else ""


def _json(record: Mapping[str, Any]) -> str:
    """The record as JSON, in which alone a list is taken for a tuple; what JSON does not know is named as text."""
    return json.dumps(record, default=str)
