"""`--plugin`, as the commands have it that open a package without a configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edge_runtime.perception.backends.tensorrt import PluginLibrary

Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Plugin library of a package; a configuration names its own.",
        show_default=False,
    ),
]


def named_plugins(paths: Sequence[Path]) -> "tuple[PluginLibrary, ...]":
    """Libraries as somebody names them at a prompt: those that lie there now.

    Raises:
        ConfigError: one cannot be read.
    """
    from edge_runtime.errors import ConfigError
    from edge_runtime.perception.backends.tensorrt import PluginLibrary

    try:
        return tuple(PluginLibrary(path.absolute(), _digest(path)) for path in paths)
    except OSError as error:
        raise ConfigError(f"the plugin library {error.filename} cannot be read: {error.strerror}") from error


def _digest(path: Path) -> str:
    from edge_runtime.durable import sha256_file
    from edge_runtime.errors import ConfigError

    if not path.is_file():  # a pipe would be read for ever
        path.stat()
        raise ConfigError(f"the plugin library {path} is not a regular file")
    return sha256_file(path)
