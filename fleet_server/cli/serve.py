"""`fleet serve`: run the server."""

from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.errors import ConfigError
from fleet_server.cli.target import DATA_VARIABLE


def serve(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Data directory, from fleet init (FLEET_DATA)."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="Instead of the one in the settings. Give one with a password as FLEET_DATABASE.",
        ),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="URL", help="Another broker: mqtts://host:port or wss://host/path."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Of the HTTP API; port 0 chooses a free one."),
    ] = None,
) -> int:
    """Run the server: HTTP API, broker and ingest, until SIGTERM or SIGINT.

    Once it works, a line `ready https://HOST:PORT broker HOST:PORT` stands on stdout; logs go to stderr.
    """
    import os

    directory = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    if directory is None:
        raise ConfigError("which data directory? give --data DIR, or make one with fleet init DIR")
    from fleet_server.serve.server import serve as run_server

    return run_server(directory, database=database, broker=broker, listen=listen)
