"""`fleet token`: create, list and revoke tokens of the HTTP API."""

from typing import Annotated

import typer

from fleet_server.cli.client import FleetClient, segment
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, when, write, write_json, write_table
from fleet_server.cli.target import Json
from fleet_server.cli.values import span_s

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Create, list and revoke API tokens.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the person or program; the audit shows it.")]


@app.command()
@on_server
def create(
    client: FleetClient,
    name: Name,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="viewer, operator, approver or admin.")
    ] = "viewer",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="SPAN", help="Ends after so long, for example 90d.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a token. It is shown this once; the server keeps only its digest."""
    body = {
        "name": name,
        "role": role,
        "expires_s": None if expires is None else span_s(expires, "--expires"),
    }
    made = client.post("/v1/tokens", body)
    if json:
        write_json(made)
        return
    write(made["token"])
    end = "does not end" if made["expires_ms"] is None else f"ends {when(made['expires_ms'])} UTC"
    say(
        f"token {made['name']}, role {made['role']}, {end}; keep it in a file of mode 0600: it is not shown again"
    )


@app.command(name="list")
@on_server
def list_(client: FleetClient, json: Json = False) -> None:
    """List tokens, without their secrets."""
    found = client.get("/v1/tokens")["tokens"]
    if json:
        write_json(found)
        return
    write_table(
        ("name", "role!", "state!", "created (UTC)!", "ends (UTC)!"),
        ((t["name"], t["role"], t["state"], when(t["created_ms"]), when(t["expires_ms"])) for t in found),
        "no tokens",
    )


@app.command()
@on_server
def revoke(
    client: FleetClient,
    name: Name,
    json: Json = False,
) -> None:
    """Revoke a token, by its name or id. It is out with its next request."""
    ended = client.delete(f"/v1/tokens/{segment(name)}")
    if json:
        write_json(ended)
    else:
        say(f"token {ended['name']} is revoked")
