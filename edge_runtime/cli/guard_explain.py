"""What a guard does on a body, as `edge-runtime guard explain` prints it: a table, one condition, or JSON."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from edge_runtime.cli.guard_look import WIDTH
from edge_runtime.cli.guard_profile import Body
from edge_runtime.errors import ConfigError
from edge_runtime.guard.conditions import BY_BIT, Condition
from edge_runtime.guard.explain import Explained, explained, modes, stop
from edge_runtime.guard.profile import Profile
from edge_runtime.guard.refusals import WITHOUT_REALTIME

_DOES = {
    "healthy": "-",
    "warn": "told",
    "degraded": "slower",
    "stopped": "stop",
    "safe": "SAFE",
    "lockout": "LOCKOUT",
}

_LEFT_BY = (
    ("acknowledgement at standstill", "standstill + ack"),
    ("reset at the machine, then acknowledgement", "reset + ack"),
    ("acknowledgement", "ack"),
    ("alone", "alone"),
)


def conditions_named(names: Iterable[str]) -> list[Condition]:
    """Conditions by their names, in the order given; all of them where none is named.

    Raises:
        ConfigError: there is none of that name.
    """
    return [condition_named(name) for name in names] or list(BY_BIT)


def condition_named(name: str) -> Condition:
    """A condition by its name; `-` stands for `_`.

    Raises:
        ConfigError: there is none of that name.
    """
    wanted = name.lower().replace("-", "_")
    try:
        return Condition(wanted)
    except ValueError:
        near = get_close_matches(wanted, [condition.value for condition in BY_BIT], n=1)
        hint = f"did you mean {near[0]}?" if near else "edge-runtime guard explain lists all"
        raise ConfigError(f"there is no condition {name}; {hint}") from None


def explain_record(body: Body, conditions: Sequence[Condition]) -> dict[str, Any]:
    """All of it for programs."""
    profile = body.profile
    stopping = profile.stopping
    return {
        "profile": profile.name,
        "stopping": {
            "distance_m": round(stopping.distance_m(), 3),
            "distance_without_real_time_m": round(stopping.distance_m(detect_factor=WITHOUT_REALTIME), 3),
            "free_range_m": stopping.free_range_m,
            "travels": stopping.travels,
        },
        "refused": list(body.refused),
        "refused_without_real_time": list(body.refused_without_real_time),
        "modes": [
            {
                "name": mode.name,
                "limits": mode.limits,
                "needs": [need.value for need in mode.needs],
                "fallbacks": {need.value: name for need, name in mode.fallbacks},
                "slower": mode.slower,
            }
            for mode in profile.modes
        ],
        "conditions": [explained(condition, profile)._asdict() for condition in conditions],
    }


def overview_lines(profile: Profile) -> Iterator[str]:
    """A body on one page: its stop, its modes, and what each condition does; within 80 columns."""
    yield f"{profile.name}: what the guard does on this body"
    yield ""
    yield from stop_lines(profile)
    yield "modes"
    for sentence in modes(profile):
        yield from _wrapped(f"  {sentence}", "    ")
    yield ""
    yield f"{'condition':<21}{'counts':<8}{'does':<23}{'left by':<17}evaluator"
    found = [explained(condition, profile) for condition in BY_BIT]
    for one in found:
        if one.ignored is None:
            yield _row(one)
    for one in found:
        if one.ignored is not None:
            yield from _wrapped(f"{one.condition:<21}ignored: {one.ignored}", " " * 21)
    yield ""
    yield "What nobody evaluates counts too. All of one: edge-runtime guard explain NAME"


def stop_lines(profile: Profile) -> Iterator[str]:
    """How far a stop goes, with a real-time schedule and without."""
    if not profile.stopping.travels:
        yield from _wrapped(f"stop  {stop(profile, realtime=True)}", "      ")
        return
    yield "stop"
    for name, realtime in (("real time", True), ("without", False)):
        yield from _wrapped(f"  {name:<11}{stop(profile, realtime=realtime)}", " " * 13)


def refusal_lines(body: Body) -> Iterator[str]:
    """Why the guard would not start with a body."""
    for sentence in body.refused:
        yield from _wrapped(f"! refused: {sentence}", "  ")
    for sentence in body.refused_without_real_time:
        if sentence not in body.refused:
            yield from _wrapped(f"! refused without a real-time schedule: {sentence}", "  ")


def detail_lines(one: Explained) -> Iterator[str]:
    """One condition, all of it; within 80 columns."""
    yield from _wrapped(f"{one.condition}: {one.text}", "  ")
    not_in = ", ".join(one.not_evaluated_in)
    rows = [
        ("does", one.does if one.ignored is None else f"nothing: it is ignored ({one.ignored})"),
        ("counts", "" if one.ignored is not None else one.trips),
        ("left by", "" if one.ignored is not None else one.clears),
        ("evaluator", one.evaluated_by),
        ("not evaluated", f"in {not_in}, where it makes it slower at worst" if not_in else ""),
    ]
    for name, text in rows:
        if text:
            yield from _wrapped(f"  {name:<15}{text}", " " * 17)


def _row(one: Explained) -> str:
    does = _DOES[one.severity]
    if one.then is not None and one.then_ms is not None:
        does += f" → {_DOES[one.then]} {duration(one.then_ms)}"
    counts = "found" if one.trip_ms is None else duration(one.trip_ms) if one.trip_ms else "at once"
    left = next(short for long, short in _LEFT_BY if one.clears.startswith(long))
    if one.clear_ms and "+" not in left:  # what a person does takes longer
        left += f", {duration(one.clear_ms)}"
    return f"{one.condition:<21}{counts:<8}{does:<23}{left:<17}{one.evaluated_by}"


def duration(milliseconds: int) -> str:
    """Milliseconds below one second, seconds above."""
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:g} s"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, drop_whitespace=True) or [""]
