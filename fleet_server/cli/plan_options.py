"""A plan on the command line: a file, options, or options above a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from edge_runtime.errors import ConfigError
from fleet_server.cli.options import stands_for

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[PLAN]", help="File of the plan: .yaml, .toml, or .json of plan --json.", show_default=False
    ),
]
Name = Annotated[str | None, typer.Option("--name", metavar="TEXT", help="How people call the rollout.")]
Release = Annotated[
    str | None,
    typer.Option("--release", metavar="RELEASE", help="models/NAME/COUNTER or configurations/NAME/COUNTER."),
]
Slot = Annotated[
    str | None, typer.Option("--slot", metavar="SLOT", help="The model's name in the devices' configuration.")
]
Stages = Annotated[
    str | None,
    typer.Option("--stages", metavar="SHARES", help="Shares of the devices in percent: 2,10,50,100."),
]
LabelsOption = Annotated[
    list[str] | None,
    typer.Option("--labels", metavar="KEY=VALUE", help="Only devices with this label; may be repeated."),
]
Hardware = Annotated[
    list[str] | None,
    typer.Option(
        "--hardware", metavar="NAME", help="Only devices that answer to one of these; may be repeated."
    ),
]
MinDevices = Annotated[
    int | None, typer.Option("--min-devices", min=1, metavar="N", help="Verdicts that a stage needs.")
]
MinShare = Annotated[
    str | None,
    typer.Option("--min-share", metavar="SHARE", help="Of those that can be reached, so many: 80%."),
]
MaxBad = Annotated[
    int | None,
    typer.Option("--max-bad", min=1, metavar="N", help="So many bad devices fail a stage at once."),
]
MaxBadShare = Annotated[
    str | None,
    typer.Option("--max-bad-share", metavar="SHARE", help="A larger share of bad ones fails it: 5%."),
]
Soak = Annotated[
    str | None,
    typer.Option("--soak", metavar="SPAN", help="How long a stage has to stay well before it passes."),
]
MaxWait = Annotated[
    str | None, typer.Option("--max-wait", metavar="SPAN", help="After this it is inconclusive, and pauses.")
]
OnFailOption = Annotated[
    str | None, typer.Option("--on-fail", metavar="ACT", help="pause, halt or rollback, where a stage fails.")
]
MaxInFlight = Annotated[
    int | None, typer.Option("--max-in-flight", min=1, metavar="N", help="Devices that are asked at once.")
]
BytesPerHour = Annotated[
    str | None, typer.Option("--bytes-per-hour", metavar="SIZE", help="Of downloads: 20 GB.")
]
StartAt = Annotated[
    str | None,
    typer.Option("--start-at", metavar="TIME", help="It starts by itself then, once it is agreed to."),
]
Window = Annotated[
    list[str] | None,
    typer.Option("--window", metavar="WINDOW", help='"mon-fri 22:00-05:00 Europe/Berlin"; may be repeated.'),
]
Value = Annotated[
    list[str] | None,
    typer.Option(
        "--value", metavar="KEY=VALUE", help="Of a configuration, for all devices; may be repeated."
    ),
]
Notes = Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="For whoever reads it later.")]

_OPTIONS: dict[str, Any] = {
    "plan": File,
    "release": Release,
    "slot": Slot,
    "stages": Stages,
    "labels": LabelsOption,
    "hardware": Hardware,
    "min_devices": MinDevices,
    "min_share": MinShare,
    "max_bad": MaxBad,
    "max_bad_share": MaxBadShare,
    "soak": Soak,
    "max_wait": MaxWait,
    "on_fail": OnFailOption,
    "max_in_flight": MaxInFlight,
    "bytes_per_hour": BytesPerHour,
    "start_at": StartAt,
    "window": Window,
    "value": Value,
    "name": Name,
    "notes": Notes,
}
_RULES = ("min_devices", "min_share", "max_bad", "max_bad_share", "soak", "max_wait")
_PACING = ("max_in_flight", "bytes_per_hour")
_AS_THEY_ARE = ("release", "slot", "hardware", "on_fail", "start_at", "name", "notes")


@contextmanager
def _drafted(**given: Any) -> Iterator[dict[str, Any]]:
    """The body of a request for the plan that the options mean."""
    from fleet_server.cli.plan_document import PlanDocument, read_plan
    from fleet_server.cli.plan_file import plan_of

    file: Path | None = given.pop("plan")
    document = PlanDocument({}) if file is None else read_plan(file)
    yield plan_of(document, _in_words(given)).model_dump(mode="json", exclude_none=True)


def _in_words(given: dict[str, Any]) -> dict[str, Any]:
    """The options in the words of a file; those that were not given are left out."""
    found: dict[str, Any] = {name: given[name] for name in _AS_THEY_ARE if given[name]}
    for section, names in (("rules", _RULES), ("pacing", _PACING)):
        if values := {name: given[name] for name in names if given[name] is not None}:
            found[section] = values
    if given["stages"]:
        found["stages"] = [part.strip() for part in given["stages"].split(",")]
    if given["window"]:
        found["windows"] = given["window"]
    if given["labels"]:
        found["labels"] = dict(_pair(text, "--labels") for text in given["labels"])
    if given["value"]:
        from fleet_server.cli.plan_words import scalar

        pairs = (_pair(text, "--value") for text in given["value"])
        found["values"] = {name: scalar(text) for name, text in pairs}
    return found


def _pair(text: str, option: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ConfigError(f"{option} {text[:80]}: it is KEY=VALUE")
    return name, value


drafted = stands_for("draft", _OPTIONS, _drafted)
"""Gives a command the options of a plan, and as `draft` the body of a request for it."""
