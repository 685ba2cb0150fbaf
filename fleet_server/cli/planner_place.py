"""`fleet plan latency` and `fleet plan placement`."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from edge_runtime.errors import ConfigError
from fleet_server.cli.output import say, write, write_json, write_table
from fleet_server.cli.plan_document import read_plan
from fleet_server.cli.target import Json
from fleet_server.planner.facts import facts
from fleet_server.planner.latency import Stage, chain
from fleet_server.planner.placement import Answers, MayLeave, Work, place
from fleet_server.planner.quantity import PER_TIME, TIME, TOKEN_RATE, count, decimal, quantity, whole

_NEEDED = ("may_leave", "personal", "offline", "latency", "work", "tokens", "steady", "staff")
_OPTIONAL = ("complex_latency", "parameters", "context", "burst", "hosted")
E_ = TypeVar("E_", bound=Enum)


def latency(
    stages: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=TIME...", help="Such as speech=350ms, or network=20ms..300ms.", show_default=False
        ),
    ],
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="TIME", help="Besides what people notice.")
    ] = None,
    json: Json = False,
) -> None:
    """Add up a chain of stages, at its best and at its worst."""
    limits = (facts().limits.people_notice, *(quantity(text, TIME) for text in limit or ()))
    found = chain(tuple(_stage(text) for text in stages), limits)
    over = [int(each * 1000) for each in found.over]
    may = [int(each * 1000) for each in found.may_be_over]
    if json:
        worst = float(found.worst * 1000)
        write_json(
            {"best_ms": float(found.best * 1000), "worst_ms": worst, "over_ms": over, "may_be_over_ms": may}
        )
        return
    best, worst_text = decimal(found.best * 1000, 0), decimal(found.worst * 1000, 0)
    write(f"{best} ms" if found.best == found.worst else f"{best} ms at best, {worst_text} ms at worst")
    for each in over:
        write(f"over {each} ms")
    for each in may:
        write(f"over {each} ms at its worst")


def _stage(text: str) -> Stage:
    name, equals, times = text.partition("=")
    if not (name and equals and times):
        raise ConfigError(f"{text!r} is no stage: write it like speech=350ms, or network=20ms..300ms")
    best, dots, worst = times.partition("..")
    return Stage(name, quantity(best, TIME), quantity(worst if dots else best, TIME))


def placement(
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="A file in TOML, YAML or JSON.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Say where work could be done, by which rule and why: latency, data and cost together.

    ANSWERS has the keys may_leave (nothing, part, all), personal, offline, steady and staff (true, false), latency
    (300ms), work (narrow, bimodal, frontier) and tokens (5Mtoken/day); and, where they are known, complex_latency,
    parameters (7B), context (tokens), burst (peak by mean) and hosted (9999usd/month).
    """
    found = place(_answers(read_plan(answers).data, answers), facts().limits)
    if json:
        write_json(
            {
                "place": found.place.value,
                "rule": found.rule,
                "why": found.text,
                "questions": [
                    {"question": each.rule, "place": each.place.value, "why": each.text}
                    for each in found.questions
                ],
                "notes": found.notes,
            }
        )
        return
    write(f"{found.place.value}: {found.text} (rule: {found.rule})")
    write_table(("question!", "points to", "why"), [(q.rule, q.place.value, q.text) for q in found.questions])
    for note in found.notes:
        say(f"  {note}")


def _answers(data: Mapping[str, Any], path: Path) -> Answers:
    unknown = sorted(set(data) - {*_NEEDED, *_OPTIONAL})
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]!r} is no answer; `fleet plan placement --help` names them")
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise ConfigError(f"{path}: {missing[0]} is missing; without it nothing follows")
    text = {name: str(value) for name, value in data.items()}
    return Answers(
        may_leave=_one(MayLeave, text["may_leave"], "may_leave", path),
        personal=_yes(data, "personal", path),
        offline=_yes(data, "offline", path),
        latency=quantity(text["latency"], TIME),
        complex_latency=quantity(text["complex_latency"], TIME) if "complex_latency" in text else None,
        work=_one(Work, text["work"], "work", path),
        parameters=count(text["parameters"], "parameters") if "parameters" in text else None,
        context=whole(text["context"], "tokens of context") if "context" in text else None,
        tokens=quantity(text["tokens"], TOKEN_RATE),
        steady=_yes(data, "steady", path),
        burst=count(text.get("burst", "1"), "times"),
        staff=_yes(data, "staff", path),
        hosted=quantity(text["hosted"], PER_TIME) if "hosted" in text else None,
    )


def _one(kind: type[E_], text: str, name: str, path: Path) -> E_:
    try:
        return kind(text)
    except ValueError:
        words = ", ".join(each.value for each in kind)
        raise ConfigError(f"{path}: {name} is one of {words}, not {text!r}") from None


def _yes(data: Mapping[str, Any], name: str, path: Path) -> bool:
    value = data[name]
    if not isinstance(value, bool):
        raise ConfigError(f"{path}: {name} is true or false, not {value!r}")
    return value
