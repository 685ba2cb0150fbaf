"""`fleet rollout`: give a release to devices in stages, watch it, stop it and take it back."""

from typing import Annotated, Any

import typer

from fleet_server.cli.client import FleetClient, segment
from fleet_server.cli.commands import EXIT_FAILED, EXIT_NOT_PART
from fleet_server.cli.names import whole_device
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, when, width, write, write_json, write_table
from fleet_server.cli.plan_options import drafted
from fleet_server.cli.rollout_exits import rollout_exit, way_exit
from fleet_server.cli.rollout_forms import head, next_act, plan_lines, planned_rows, status_lines
from fleet_server.cli.target import Json
from fleet_server.cli.way_forms import way_lines

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Give a release to devices in stages.")

_PLANNED_PAGE = 10_000  # each page reads the whole fleet once
Rollout = Annotated[
    str, typer.Argument(metavar="ROLLOUT", help="Its id, as fleet rollout list shows it: r7.")
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; it is shown, and goes into the audit.")
]


@app.command()
@on_server
@drafted
def plan(
    client: FleetClient,
    draft: dict[str, Any],
    devices: Annotated[
        bool, typer.Option("--devices", help="Also list every device: its stage, or why it has none.")
    ] = False,
    json: Json = False,
) -> int:
    """Show what a plan would do now: who gets it when, who does not and why, and what a stage can show.

    Nothing is written. What plan --json prints can be given to create as a file.
    """
    report = client.post("/v1/rollouts/plan", draft)
    if json:
        write_json({**report, "devices": list(_planned(client, draft))} if devices else report)
    else:
        for line in plan_lines(report, width()):
            write(line)
        if devices:
            write("")
            columns = ("#stage!", "device~", "#bucket!", "not because!", "what would change it")
            write_table(columns, planned_rows(_planned(client, draft)), "no device is named by it")
    return EXIT_FAILED if report["refusals"] else 0


@app.command()
@on_server
@drafted
def create(client: FleetClient, draft: dict[str, Any], json: Json = False) -> None:
    """Choose the devices of a rollout and reserve them. It starts once another person has agreed.

    Its id is all that stdout gets: R=$(fleet rollout create plan.yaml).
    """
    made = client.post("/v1/rollouts", draft)
    if json:
        write_json(made)
        return
    write(made["id"])
    _say(made)
    say(f"{made['devices']} devices in {made['stages']} stages")


@app.command()
@on_server
def approve(
    client: FleetClient,
    rollout: Rollout,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="For the audit.")] = None,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Of a paused one: its open stages may be let pass as they are, too."),
    ] = False,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="SHA256",
            help="Of what was looked at, as status names it: nothing else is meant.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Agree to what a rollout waits for: its start, its going on after a pause, or its rollback.

    Whoever wrote it down agrees to nothing of it: a person is the name of a token. Going on is agreed to as it is:
    one more bad device until then, and the server asks for another approval.
    """
    _act(client, rollout, "approve", {"note": note, "accept": accept, "digest": digest}, json=json)


@app.command()
@on_server
def start(client: FleetClient, rollout: Rollout, json: Json = False) -> None:
    """Start a rollout that was agreed to: its first stage opens as soon as times and windows allow."""
    _act(client, rollout, "start", None, json=json)


@app.command()
@on_server
def status(
    client: FleetClient,
    rollout: Rollout,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow it until nothing happens any more before a person acts.")
    ] = False,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices", metavar="STATE", help="Also list its devices in a state, or with all: every one."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Show a rollout: its stages, their verdicts, and what it waits for. The exit code says how it stands."""
    if watch:
        from fleet_server.cli.rollout_watch import watch as follow

        return rollout_exit(follow(client, rollout, json=json))
    found = client.get(_path(rollout))
    members = None if devices is None else _members(client, rollout, devices)
    if json:
        write_json(found if members is None else {**found, "members": list(members)})
        return rollout_exit(found)
    for line in status_lines(found, width()):
        write(line)
    if members is not None:
        write("")
        columns = ("device~", "#stage!", "state!", "code!", "since (UTC)!", "said")
        rows = (
            (m["device"], m["stage"], m["state"], m["code"], when(m["since_ms"]), m["text"] or None)
            for m in members
        )
        write_table(columns, rows, "no device is in that state")
    return rollout_exit(found)


@app.command()
@on_server
def pause(client: FleetClient, rollout: Rollout, reason: Reason, json: Json = False) -> None:
    """Offer it to no further device. Those that have the offer go on."""
    _act(client, rollout, "pause", {"reason": reason}, json=json)


@app.command()
@on_server
def resume(
    client: FleetClient,
    rollout: Rollout,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Let the open stage count as passed, as it is: approve --accept first."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Go on after a pause, once another person has agreed. Bad devices until now are excused."""
    _act(client, rollout, "resume", {"accept": accept}, json=json)


@app.command()
@on_server
def halt(client: FleetClient, rollout: Rollout, reason: Reason, json: Json = False) -> None:
    """Stop it, and take back every offer that is not yet in use. Devices that use the release keep it."""
    _act(client, rollout, "halt", {"reason": reason}, json=json)


@app.command()
@on_server
def rollback(client: FleetClient, rollout: Rollout, json: Json = False) -> None:
    """Send the devices that took it back to what they ran before, as far as its signed terms permit."""
    _act(client, rollout, "rollback", None, json=json)


@app.command()
@on_server
def cancel(client: FleetClient, rollout: Rollout, reason: Reason, json: Json = False) -> None:
    """End it where it stands. Its devices are free for other rollouts; those that use the release keep it."""
    _act(client, rollout, "cancel", {"reason": reason}, json=json)


@app.command()
@on_server
def explain(
    client: FleetClient,
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", help="Id of the device; its middle may be an ellipsis.")
    ],
    rollout: Annotated[
        str | None,
        typer.Option("--rollout", metavar="ROLLOUT", help="Only this one; without it, the newest first."),
    ] = None,
    json: Json = False,
) -> int:
    """Say why a device has a release or has it not, in order, and what would change it.

    The exit code is that of the rollout that is named, or else of the newest that the device is part of.
    """
    device = whole_device(client, device)
    found = client.get(f"/v1/devices/{segment(device)}/rollouts", rollout=rollout)
    if json:
        write_json(found)
    else:
        for line in way_lines(found):
            write(line)
    part = [way for way in found["ways"] if way["membership"]["part"]]
    meant = (part or found["ways"])[:1]
    return way_exit(meant[0]) if meant else EXIT_NOT_PART


@app.command(name="list")
@on_server
def list_(
    client: FleetClient,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help="Only those in this state, such as running."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List rollouts, the newest first."""
    found = client.get("/v1/rollouts", state=state, limit=limit)["rollouts"]
    if json:
        write_json(found)
        return
    write_table(
        ("id!", "name", "state!", "stage!", "slot", "by", "changed (UTC)!"),
        (
            (
                r["id"],
                r["name"],
                r["state"],
                f"{r['stage'] or 0} of {r['stages']}",
                r["slot"],
                r["author"],
                when(r["changed_ms"]),
            )
            for r in found
        ),
        "no rollouts: fleet rollout plan shows what one would do",
    )


def _act(client: FleetClient, rollout: str, act: str, body: dict[str, Any] | None, *, json: bool) -> None:
    """Do something with a rollout, and say what state that left it in."""
    found = client.post(f"{_path(rollout)}/{act}", body)
    if json:
        write_json(found)
        return
    _say(found)


def _say(view: Any) -> None:
    """Where a rollout stands, and what a person can do next, on stderr."""
    for line in head(view, None):
        say(line)
    if text := next_act(view):
        say(f"next: {text}")


def _path(rollout: str) -> str:
    return f"/v1/rollouts/{segment(rollout)}"


def _planned(client: FleetClient, draft: dict[str, Any]) -> Any:
    """Every device that a plan names, page by page."""
    after = ""
    while True:
        answer = client.post("/v1/rollouts/plan/devices", draft, after=after, limit=_PLANNED_PAGE)
        yield from answer["devices"]
        if answer["next"] is None:
            return
        after = answer["next"]


def _members(client: FleetClient, rollout: str, state: str) -> Any:
    only = None if state == "all" else state
    return client.pages(f"{_path(rollout)}/devices", "devices", "after", state=only)
