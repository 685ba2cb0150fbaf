"""`fleet serve`: run the server."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet_server.cli.target import data_directory

PASSWORD = re.compile(r"://[^/?#@]*:[^?#]*@|[?&][a-z_]*pass[a-z]*=", re.IGNORECASE)


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
    directory = data_directory(data)
    if database is not None and PASSWORD.search(database):
        _take_off_the_command_line(database)
    from edge_runtime.lifeline import leave_no_core
    from fleet_server.serve.server import serve as run_server

    leave_no_core()
    return run_server(directory, database=database, broker=broker, listen=listen)


def _take_off_the_command_line(database: str) -> None:
    """Become the same program with the URL in its environment: every user of the machine reads a command line."""
    from fleet_server.settings import DATABASE_VARIABLE

    words: list[str] = []
    for word in sys.orig_argv[1:]:
        if word == database and words[-1:] == ["--database"]:
            words.pop()
        elif word != f"--database={database}":
            words.append(word)
    if len(words) == len(sys.orig_argv) - 1:
        return  # it does not stand there: another program called this one's function
    os.environ[DATABASE_VARIABLE] = database
    os.execv(sys.executable, [sys.orig_argv[0], *words])  # noqa: S606 - the same program, without a shell
