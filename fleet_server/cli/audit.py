"""`fleet audit`: what operators did, and whether anybody changed that afterwards."""

from typing import Annotated

import typer

from fleet_server.cli.client import FleetClient
from fleet_server.cli.commands import EXIT_FAILED
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, when, write, write_json, write_table
from fleet_server.cli.target import Json

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List and verify what operators did.")


@app.command(name="list")
@on_server
def list_(
    client: FleetClient,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List acts, the newest first."""
    found = client.get("/v1/audit", limit=limit)["entries"]
    if json:
        write_json(found)
        return
    write_table(
        ("#no!", "when (UTC)!", "who", "what", "about"),
        ((e["id"], when(e["at_ms"]), e["actor"], e["action"], e["subject"]) for e in found),
        "nothing was done yet",
    )


@app.command()
@on_server
def verify(client: FleetClient, json: Json = False) -> int:
    """Verify the chain of hashes from its first entry to its last.

    The last hash can be kept elsewhere: an audit that was cut off at its end is whole in itself, but ends in
    another hash.
    """
    found = client.post("/v1/audit/verify")
    if json:
        write_json(found)
    elif found["whole"]:
        write(f"whole: {found['entries']} entries, the last hash is {found['head']}")
    else:
        say(f"BROKEN at entry {found['broken_at']}: {found['detail']}")
    return 0 if found["whole"] else EXIT_FAILED
