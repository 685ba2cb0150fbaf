"""`fleet events`: follow, list, show and export committed events."""

import random
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from edge_runtime.clock import SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient
from fleet_server.cli.errors import NotReachable
from fleet_server.cli.event_filters import Filters, filtered
from fleet_server.cli.event_forms import csv_lines, json_lines, show_event
from fleet_server.cli.options import on_server
from fleet_server.cli.output import (
    clean,
    say,
    when_short,
    width,
    write,
    write_json,
    write_json_line,
    write_table,
)
from fleet_server.cli.table import shorten
from fleet_server.cli.target import Json
from fleet_server.cli.values import instant_ms
from fleet_server.cli.whole_file import WholeFile

_EVENT = re.compile(r"[0-9]{1,18}|[0-9a-f]{32}")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Follow, list, show and export events.")

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only committed since: 90s, 15m, 24h, 7d ago, or an ISO time."
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only committed before.")]

_REMEMBERED = 5000
_LONGEST_PAUSE_S = 10.0


@app.command()
@on_server
@filtered
def tail(
    client: FleetClient,
    filters: Filters,
    last: Annotated[
        int, typer.Option("--last", min=0, max=1000, help="Show so many earlier ones first.")
    ] = 10,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="End after so many events; without it, at Ctrl-C.")
    ] = None,
    json: Json = False,
) -> None:
    """Follow events as they are committed.

    A server that goes away is waited for, and nothing that it committed meanwhile is missed.
    """
    whole = width() is None
    if not json:
        write(_HEADING)
    for shown, event in enumerate(_followed(client, filters.asked(client), last), start=1):
        write_json_line(event) if json else write(_line(event, whole=whole))
        if count is not None and shown >= count:
            return


@app.command(name="list")
@on_server
@filtered
def list_(
    client: FleetClient,
    filters: Filters,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 100,
    json: Json = False,
) -> None:
    """List committed events, the newest first."""
    asked = filters.asked(client) | _times(since, until)
    found = []
    for event in client.pages("/v1/events", "events", "before_id", **asked, limit=min(limit, 1000)):
        found.append(event)
        if len(found) >= limit:
            break
    if json:
        write_json(found)
        return
    write_table(
        ("#no!", "committed UTC!", "device~", "camera", "rule", "severity!", "state!"),
        (
            (
                event["id"],
                when_short(event["received_ms"]),
                event["device"],
                event["camera"],
                event["rule"],
                event["severity"],
                event["state"],
            )
            for event in found
        ),
        "no such events",
    )
    if len(found) == limit:
        say(f"the newest {limit}; --limit shows more")


@app.command()
@on_server
def show(
    client: FleetClient,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Its number in a list, or its key.")],
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", metavar="FILE", help="Also fetch its evidence into this file."),
    ] = None,
    json: Json = False,
) -> None:
    """Show one event, the decision that let it go, and how far its evidence is."""
    if not _EVENT.fullmatch(event):
        raise ConfigError("EVENT is a number or a key of 32 hexadecimal digits")
    found = client.get(f"/v1/events/{event}")
    if json:
        write_json(found)
    else:
        show_event(found)
    if evidence is not None:
        with WholeFile(evidence) as stream:
            size = client.download(f"/v1/events/{event}/evidence", stream)
        say(f"{evidence}: {size} bytes")


@app.command()
@on_server
@filtered
def export(
    client: FleetClient,
    filters: Filters,
    since: Since = None,
    until: Until = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="ndjson or csv.")] = "ndjson",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write here, whole or not at all; stdout without it."),
    ] = None,
) -> None:
    """Write all committed events that are meant, the oldest first: one JSON object a line, or CSV."""
    if form not in ("ndjson", "csv"):
        raise ConfigError("--format is ndjson or csv")
    asked = filters.asked(client) | _times(since, until)
    found = client.pages("/v1/events", "events", "after_id", after_id=0, **asked)
    lines = csv_lines(found) if form == "csv" else json_lines(found)
    if out is None:
        for line in lines:
            sys.stdout.write(line)
        return
    with WholeFile(out) as stream:
        written = sum(1 for line in lines if stream.write(line.encode()))
    say(f"{out}: {written - (form == 'csv')} events")


def _followed(client: FleetClient, filters: dict[str, Any], last: int) -> Iterator[Any]:
    """Events from the last ones on, each once, across restarts of the server."""
    earlier = client.get("/v1/events", **filters, limit=max(1, last))["events"]
    newest = client.get("/v1/events", limit=1)["events"]
    last_id = str(newest[0]["id"]) if newest else "0"
    given: OrderedDict[str, None] = OrderedDict()
    for event in reversed(earlier[:last]):
        given[event["key"]] = None
        yield event
    failures = 0
    while True:
        try:
            with client.stream("/v1/events/stream", last_id, **filters) as events:
                if failures:
                    say("the server is back")
                failures = 0
                for event in events:
                    last_id = event.id
                    if event.data["key"] not in given:
                        given[event.data["key"]] = None
                        yield event.data
                    while len(given) > _REMEMBERED:
                        given.popitem(last=False)
            said = "the server ended the stream"
        except NotReachable as error:
            said = str(error)
        if not failures:
            say(f"{said}; waiting for it")
        failures += 1
        time.sleep(random.uniform(0.2, min(_LONGEST_PAUSE_S, 0.5 * 2 ** min(failures, 6))))  # noqa: S311 - jitter


def _times(since: str | None, until: str | None) -> dict[str, Any]:
    clock = SystemClock()
    return {
        "since": instant_ms(since, "--since", clock),
        "until": instant_ms(until, "--until", clock),
    }


_LINE = "{:<14}  {:<14}  {:<12}  {:<14}  {:<8}  {}"
_HEADING = _LINE.format("committed UTC", "device", "camera", "rule", "severity", "state")


def _line(event: Any, *, whole: bool) -> str:
    """One event on one line; a stream cannot wait for all of them to know how wide a column must be."""

    def shown(text: object, width: int) -> str:
        return clean(text) if whole else shorten(clean(text), width)

    return _LINE.format(
        when_short(event["received_ms"]),
        shown(event["device"], 14),
        shown(event["camera"], 12),
        shown(event["rule"], 14),
        event["severity"],
        event["state"],
    )
