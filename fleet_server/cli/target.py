"""Which server a command means: a URL with a token and an authority, or a data directory on this machine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from edge_runtime.errors import ConfigError

SERVER_VARIABLE, TOKEN_VARIABLE, CA_VARIABLE, DATA_VARIABLE = (
    "FLEET_SERVER",
    "FLEET_TOKEN",
    "FLEET_CA",
    "FLEET_DATA",
)

Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Server to speak to, https://HOST:PORT (FLEET_SERVER)."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="File with an API token (FLEET_TOKEN: the file, or the token)."
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca", metavar="FILE", help="Certificate of the server's authority, its authority/ca.pem (FLEET_CA)."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory of a server on this machine (FLEET_DATA)."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]


def data_directory(given: Path | None) -> Path:
    """The data directory that is meant: of the option, or else of FLEET_DATA.

    Raises:
        ConfigError: neither names one.
    """
    named = os.environ.get(DATA_VARIABLE)
    if given is not None:
        return given
    if not named:
        raise ConfigError("which data directory? give --data DIR, or make one with fleet init DIR")
    return Path(named)


@dataclass(frozen=True, slots=True)
class RemoteTarget:
    """A server over the network.

    Attributes:
        authority: file with the certificate to trust; None for the system's own authorities.
    """

    url: str
    token: str = field(repr=False)
    authority: Path | None


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A data directory on this machine."""

    directory: Path


def choose(
    server: str | None,
    token_file: Path | None,
    ca: Path | None,
    data: Path | None,
    environment: Mapping[str, str] | None = None,
) -> RemoteTarget | LocalTarget:
    """The server that is meant. An option on the command line stands above every variable of the environment.

    Raises:
        ConfigError: none or two are named, or the URL or a file cannot be used.
    """
    variables = os.environ if environment is None else environment
    if server is not None and data is not None:
        raise ConfigError("--server and --data name two servers: give one of them")
    if server is None and data is None:
        server = variables.get(SERVER_VARIABLE) or None
        directory = variables.get(DATA_VARIABLE) or None
        if server is not None and directory is not None:
            raise ConfigError(
                "FLEET_SERVER and FLEET_DATA name two servers: unset one, or give --server or --data"
            )
        data = None if directory is None else Path(directory)
    if data is not None:
        if token_file is not None or ca is not None:
            raise ConfigError("--token-file and --ca belong to --server; --data needs neither")
        return LocalTarget(data)
    if server is None:
        raise ConfigError("which server? give --server URL, or --data DIR on its own machine")
    authority = ca or (Path(variables[CA_VARIABLE]) if variables.get(CA_VARIABLE) else None)
    return RemoteTarget(_url(server), _token(token_file, variables), authority)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme == "https" and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        usable = False
    if not usable or parts.path not in ("", "/") or parts.query:
        raise ConfigError("--server is https://HOST:PORT, without user, path or query")
    return f"https://{parts.netloc}"


def _token(file: Path | None, variables: Mapping[str, str]) -> str:
    if file is None:
        given = variables.get(TOKEN_VARIABLE, "")
        if not given:
            raise ConfigError("a token is needed: --token-file FILE or FLEET_TOKEN")
        if given.startswith("eft1."):
            return _clean(given, TOKEN_VARIABLE)
        file = Path(given)
    try:
        with file.open("rb") as stream:
            return _clean(stream.read(1024).decode(errors="replace"), str(file))
    except OSError as error:
        raise ConfigError(f"token file {file}: {error.strerror}") from None


def _clean(text: str, where: str) -> str:
    token = text.strip()
    if not token.startswith("eft1.") or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{where} holds no API token: one begins with eft1. (see fleet token create)")
    return token
