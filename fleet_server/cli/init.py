"""`fleet init`: make the data directory of a new server."""

from pathlib import Path
from typing import Annotated

import typer

from fleet_server.cli.output import say, write, write_json
from fleet_server.cli.target import Json


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="New or empty; it will hold the authority's key.")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="Name or address by which devices reach it; the first is told to them. May be repeated.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Of the HTTP API; 0.0.0.0:8443 without it."),
    ] = None,
    broker_port: Annotated[
        int | None,
        typer.Option("--broker-port", min=0, max=65535, help="Of the embedded broker; 8883 without it."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="postgresql://…; a file in DIR without it."),
    ] = None,
    json: Json = False,
) -> None:
    """Make the data directory of a new server: authority, certificates, settings, database, admin token.

    Whoever can read it can become any device: keep it on a disk of its own, and back it up.
    """
    from fleet_server.init import initialise

    made = initialise(directory, hosts=host or (), listen=listen, broker_port=broker_port, database=database)
    if json:
        write_json(
            {"directory": str(made.directory), "hosts": list(made.hosts), "authority": made.fingerprint}
        )
        return
    write(f"{made.directory} is ready. Devices will reach it as {', '.join(made.hosts)}.")
    say(f"  fleet serve --data {made.directory}")
    say(f"  fleet device invite --data {made.directory}")
