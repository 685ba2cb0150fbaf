"""The forms in which a plan and a rollout are shown: lines of text, as wide as the terminal is."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fleet_server.cli.output import clean, size, when
from fleet_server.in_words import span

_LABEL = 11
_WORKING = (
    "assigned",
    "offered",
    "accepted",
    "downloading",
    "verified",
    "staged",
    "waiting",
    "activating",
    "probation",
)
_BAD = ("reverted", "refused", "stuck")
_APART = ("superseded", "withdrawn", "unreachable", "decommissioned")


def share(basis_points: int) -> str:
    """A share of devices, `2 %`."""
    return f"{basis_points / 100:g} %"


def percent(ratio: float) -> str:
    """A rate with two digits that mean something: `0.30 %`, `14 %`."""
    value = ratio * 100
    return f"{value:.0f} %" if value >= 10 else f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"


# -- a plan ------------------------------------------------------------------------------------------------------


def plan_lines(report: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """What a plan would do."""
    plan = report["plan"]
    told = f"{report['selected']} devices by {_selection(plan)}; {report['eligible']} would get it"
    yield from rows(
        "release", f"{report['target']}, {size(report['total_bytes'])}, for {plan['slot']}", width
    )
    yield from rows("selected", told, width)
    for reason, count in sorted(report["excluded"].items()):
        by = f" ({counted(report['incompatible'])})" if reason == "incompatible" else ""
        yield from rows("not", f"{count} {reason.replace('-', ' ')}{by}", width)
    rules = [stage["rules"] for stage in plan["stages"]]
    yield from _table(
        ("#stage!", "#share!", "#devices!", "opens (UTC)!", "needs", "a pass shows!"),
        (
            (
                stage["number"],
                share(stage["basis_points"]),
                stage["devices"],
                when(stage["opens_at_ms"]),
                _needs(rules[stage["number"] - 1]),
                f"< {percent(stage['shows'])} bad" if stage["devices"] else "nothing",
            )
            for stage in report["stages"]
        ),
        width,
    )
    moved = f"{size(report['bytes'])} of downloads, were nothing of it on the devices yet"
    yield from rows("bytes", f"{moved}{_hours(report)}", width)
    yield from rows("if it fails", f"it will {_ON_FAIL[plan['on_fail']]}", width)
    for label in ("warnings", "refusals"):
        for text in report[label]:
            yield from rows("WARNING" if label == "warnings" else "REFUSED", text, width)


_ON_FAIL = {
    "pause": "pause; devices that have the offer go on",
    "halt": "halt; offers that are not yet in use are taken back",
    "rollback": "halt, and send every device that took it back to what it ran before",
}


def _hours(report: Mapping[str, Any]) -> str:
    """How long the downloads take at the least where the plan bounds their bytes."""
    most = report["plan"]["pacing"]["bytes_per_hour"]
    return "" if most is None else f"; {span(report['bytes'] * 3_600_000 // most)} at {size(most)} an hour"


def planned_rows(devices: Iterable[Mapping[str, Any]]) -> Iterator[Sequence[object]]:
    """One device a row: stage, name, bucket, and why not."""
    for one in devices:
        yield (one["stage"], one["device"], one["bucket"], one["exclusion"], one["why"] or None)


def _selection(plan: Mapping[str, Any]) -> str:
    by = [f"{name}={text}" for name, text in sorted(plan["labels"].items())]
    by += ["hardware " + " or ".join(plan["hardware"])] if plan["hardware"] else []
    return " ".join(by) or "no restriction"


def _needs(rules: Mapping[str, Any]) -> str:
    bad = f"≤ {rules['max_bad_share'] * 100:g} % bad"
    most = "" if rules.get("max_bad") is None else f" and < {rules['max_bad']}"
    soak = f" for {span(rules['soak_s'] * 1000)}" if rules["soak_s"] else ""
    return f"{rules['min_devices']} and {rules['min_share'] * 100:g} % judged, {bad}{most}{soak}"


# -- a rollout ---------------------------------------------------------------------------------------------------


def status_lines(view: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """A rollout as it stands, its stages, and what it waits for."""
    yield from head(view, width)
    what = f"{view['release']} {view['counter']} for {view['slot']}, {view['devices']} devices"
    yield from rows("release", what, width)
    times = [("created", view["created_ms"]), ("started", view["started_ms"]), ("ended", view["ended_ms"])]
    by = ", ".join(f"{word} {when(ms)}" for word, ms in times if ms is not None)
    yield from rows("by", f"{view['author']}; {by} UTC", width)
    for given in view["approvals"]:
        note = f": {given['note']}" if given["note"] else ""
        what = _AGREED[given["purpose"]]
        yield from rows("agreed", f"{given['by']} to {what}, {when(given['at_ms'])} UTC{note}", width)
    yield from _table(
        (
            "#stage!",
            "#share!",
            "state!",
            "#devices!",
            "#healthy!",
            "#bad!",
            "#working!",
            "#apart!",
            "bad, 95 %!",
        ),
        (_stage_row(stage) for stage in view["stages_view"]),
        width,
    )
    for stage in view["stages_view"]:
        said = "" if stage["verdict"] is None else stage["verdict"]["text"]
        waits = stage["waits_for"] if view["state"] == "running" else ""
        for text in dict.fromkeys(text for text in (said, waits) if text):
            yield from rows(f"stage {stage['number']}", text, width)
    if view["codes"]:
        yield from rows("bad by", counted(view["codes"]), width)
    if view["rollback"]:
        yield from rows("sent back", counted(view["rollback"]), width)
    if view["left"]:
        yield from rows("LEFT", f"{counted(view['left'])}: they were not sent back", width)
    if view["going_on"] is not None:
        yield from rows("going on", _going_on(view["going_on"]), width)
    if text := next_act(view):
        yield from rows("next", text, width)


_AGREED = {
    "start": "its start",
    "continue": "its going on",
    "accept": "its going on, open stages let pass",
    "rollback": "its rollback",
}


def _going_on(found: Mapping[str, Any]) -> str:
    """What going on accepts: `excuses 2 bad devices; --accept lets stage 1 pass; digest 5f3c…`."""
    bad, stages = found["bad"], found["stages"]
    excuses = f"excuses {bad} bad device{'' if bad == 1 else 's'}"
    passes = f"; --accept lets stage {' and '.join(map(str, stages))} pass as it is" if stages else ""
    return f"{excuses}{passes}; digest {found['digest']}"


def head(view: Mapping[str, Any], width: int | None) -> list[str]:
    """Which, where it stands, and why."""
    why = f": {view['reason']}" if view["reason"] else ""
    text = clean(f"{view['id']}  {view['name']}  {view['state'].upper().replace('-', ' ')}{why}")
    return [text] if width is None else textwrap.wrap(text, width, subsequent_indent="    ")


def next_act(view: Mapping[str, Any]) -> str:
    """What a person can do where the rollout waits for one; empty where it goes on by itself."""
    name = view["id"]
    if view["needs"] is not None:
        act = {"start": "start", "continue": "go on", "rollback": "roll back"}[view["needs"]]
        return f"an approval to {act}, by another than {view['author']}: fleet rollout approve {name}"
    return {
        "ready": f"fleet rollout start {name}",
        "paused": f"fleet rollout resume {name}, or halt, or cancel",
        "halted": f"fleet rollout rollback {name}, or cancel",
    }.get(view["state"], "")


def change_line(view: Mapping[str, Any]) -> str:
    """One line for a log: where it stands, and its devices by state."""
    stage = "" if view["stage"] is None else f" stage {view['stage']} of {view['stages']}"
    numbers = counted(view["rollback"] or view["counts"])
    return clean(
        f"{view['id']} {view['state']}{stage}: {numbers}" + (f" ({view['reason']})" if view["reason"] else "")
    )


def counted(counts: Mapping[str, int]) -> str:
    """`3 healthy, 1 stuck`."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def rows(label: str, text: str, width: int | None) -> list[str]:
    """A label and what stands behind it, in as many lines as the terminal needs."""
    if width is None:
        return [f"{clean(label):<{_LABEL}} {clean(text)}".rstrip()]
    first, next_ = f"{clean(label):<{_LABEL}} ", " " * (_LABEL + 1)
    return textwrap.wrap(clean(text), width, initial_indent=first, subsequent_indent=next_) or [
        first.rstrip()
    ]


def _stage_row(stage: Mapping[str, Any]) -> Sequence[object]:
    counts = stage["counts"]
    verdict = stage["verdict"]
    return (
        stage["number"],
        share(stage["basis_points"]),
        stage["state"],
        stage["devices"],
        counts.get("healthy", 0),
        sum(counts.get(state, 0) for state in _BAD),
        sum(counts.get(state, 0) for state in _WORKING),
        sum(counts.get(state, 0) for state in _APART),
        None if verdict is None or not verdict["judged"] else f"< {percent(verdict['upper_bound'])}",
    )


def _table(columns: Sequence[str], body: Iterable[Sequence[object]], width: int | None) -> list[str]:
    from fleet_server.cli.table import Column, lay_out

    cells = [["-" if cell is None else clean(cell) for cell in row] for row in body]
    return lay_out([Column.parse(name) for name in columns], cells, width)
