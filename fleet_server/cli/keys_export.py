"""`fleet keys export` and `online`: what people need of the server to sign the next, and no secret."""

from pathlib import Path
from typing import Annotated, Any

import typer

from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, write_json


@on_server
def export(
    client: FleetClient,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; stdout without it.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root", metavar="FILE", help="Also the newest root alone, for edge-runtime update trust FILE."
        ),
    ] = None,
) -> None:
    """Write the repository as people need it to sign: public keys and signed metadata, no secret.

    With --root FILE the newest root is written as well, as a device takes it by hand; with that alone, nothing
    else is.
    """
    found = client.get("/v1/releases/repository")
    if root is not None:
        _write_root(found, root)
    if out is not None or root is None:
        _write_repository(found, out)


@on_server
def online(
    client: FleetClient,
    role: Annotated[
        list[str],
        typer.Argument(metavar="ROLE...", help="snapshot, timestamp or director.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; stdout without it.")
    ] = None,
) -> None:
    """Have the server make new keys of its own, and export them; fleet keys rotate --online takes them in."""
    _write_repository(client.post("/v1/releases/online-keys", {"roles": role}), out)


def _write_root(found: Any, path: Path) -> None:
    from fleet_server.releases.repository import fingerprint, parse

    if not found["roots"]:
        raise ConfigError("this fleet has no root yet: fleet keys begin makes the first proposal")
    newest = found["roots"][-1]
    _write(path, newest.encode())
    root = parse("root", newest)
    say(f"{path}: root {root.signed.version}, fingerprint {fingerprint(root)[:32]}")


def _write_repository(found: Any, out: Path | None) -> None:
    if out is None:
        write_json(found)
        return
    import json

    _write(out, json.dumps(found, indent=1).encode())
    none = "no keys of people yet: fleet keys begin, or alone fleet keys init --preset single --repository"
    state = f"root {len(found['roots'])}" if found["roots"] else none
    say(f"{out}: {state}")


def _write(path: Path, data: bytes) -> None:
    from edge_runtime.durable import write_file

    try:
        write_file(path, data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
