"""`fleet release`: pack a model or a configuration, sign it, approve it, publish it, and take it back."""

import time
from typing import Annotated

import typer

from fleet_server.cli.client import FleetClient, segment
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, size, when, write, write_json, write_table
from fleet_server.cli.release_forms import terms_lines
from fleet_server.cli.release_making import (
    CounterArgument,
    Files,
    Kind,
    NameArgument,
    ProposalFile,
    approve,
    inspect,
    kind_of,
    pack,
    revoke,
    sign,
)
from fleet_server.cli.release_revising import terms
from fleet_server.cli.release_upload import upload
from fleet_server.cli.target import Json

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Pack, sign, approve, publish and revoke releases."
)

_POLL_S = 0.5

app.command()(pack)
app.command()(sign)
app.command()(approve)


@app.command()
@on_server
def publish(client: FleetClient, proposal: ProposalFile, release: Files = None, json: Json = False) -> None:
    """Give a proposal that enough people signed to the server, with its files. The same again changes nothing."""
    from fleet_server.releases.proposal import ProposalKind, read_proposal

    found = read_proposal(proposal)
    body = found.submission().model_dump(mode="json")
    if found.kind is ProposalKind.RELEASE:
        upload(client, found, proposal, release, body)
    told = False
    while (answer := client.post("/v1/releases/publish", body))["state"] == "checking":
        if not told:
            say("the server runs the golden vectors")
            told = True
        time.sleep(_POLL_S)
    if json:
        write_json(answer)
    else:
        versions = ", ".join(f"{role} {version}" for role, version in answer["versions"].items())
        acts = {ProposalKind.REVOCATION: "revoked", ProposalKind.TERMS: "new terms published"}
        act = acts.get(found.kind, "published")
        before = " already" if answer["state"] == "already" else ""
        say(f"{act}{before}: {found.target or 'keys'} ({versions})")


@app.command(name="list")
@on_server
def list_(
    client: FleetClient,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only of this line.")] = None,
    json: Json = False,
) -> None:
    """List releases, the newest of each line first."""
    found = list(client.pages("/v1/releases", "releases", "after", name=name))
    if json:
        write_json(found)
        return
    write_table(
        ("kind", "name", "#counter!", "bundle!", "published (UTC)!", "state!"),
        (
            (
                one["terms"]["kind"],
                one["terms"]["name"],
                one["terms"]["counter"],
                one["sha256"][:12],
                when(one["published_ms"]),
                "revoked" if one["revoked_ms"] else "published",
            )
            for one in found
        ),
        "no releases",
    )


@app.command()
@on_server
def show(
    client: FleetClient,
    name: NameArgument,
    counter: CounterArgument,
    kind: Kind = "model",
    json: Json = False,
) -> None:
    """Show a release: its terms, who published it, and its files."""
    found = client.get(f"/v1/releases/{kind_of(kind).value}/{segment(name)}/{counter}")
    if json:
        write_json(found)
        return
    for line in terms_lines(found["terms"]):
        write(line)
    write(f"bundle      sha256 {found['sha256']}, {found['length']} bytes")
    write(f"published   {when(found['published_ms'])} UTC by {found['published_by']}")
    if found["revoked_ms"]:
        write(f"REVOKED     {when(found['revoked_ms'])} UTC by {found['revoked_by']}: {found['reason']}")
    for file in found["bundle"]["files"]:
        write(f"  {file['sha256'][:12]}  {size(file['bytes']):>9}  {file['path']}")


@app.command()
@on_server
def recover(
    client: FleetClient,
    snapshot: Annotated[
        int, typer.Option("--snapshot", min=0, help="Highest version of the snapshot that a device has seen.")
    ] = 0,
    timestamp: Annotated[
        int,
        typer.Option("--timestamp", min=0, help="Highest version of the timestamp that a device has seen."),
    ] = 0,
    json: Json = False,
) -> None:
    """Go on above what a thief of the server's keys has shown to devices. Rotate the stolen keys as well."""
    found = client.post("/v1/releases/recover", {"snapshot": snapshot, "timestamp": timestamp})
    if json:
        write_json(found)
    else:
        say(f"the server goes on with snapshot {found['snapshot']} and timestamp {found['timestamp']}")


app.command()(revoke)
app.command()(terms)
app.command()(inspect)
