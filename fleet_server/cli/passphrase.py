"""The passphrase of a directory of keys: typed, or in a file. Every user of a machine sees its arguments."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.errors import ConfigError

_MOST = 1024

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="File whose first line is the passphrase of the keys; asked for without it.",
    ),
]


def passphrase_of(file: Path | None, *, new: bool = False) -> str:
    """The passphrase.

    Args:
        file: that it is in; None asks on the terminal.
        new: it is asked for twice.

    Raises:
        ConfigError: the file cannot be read, or there is no terminal to ask on.
    """
    if file is not None:
        try:
            with file.open("rb") as stream:
                text = stream.read(_MOST).decode().partition("\n")[0].rstrip("\r")
        except OSError as error:
            raise ConfigError(f"--passphrase-file {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"--passphrase-file {file} is no text") from None
        if not text:
            raise ConfigError(f"--passphrase-file {file} is empty")
        return text
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to type the passphrase: give --passphrase-file FILE")
    return str(typer.prompt("Passphrase of the keys", hide_input=True, confirmation_prompt=new, err=True))
