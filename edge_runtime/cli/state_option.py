"""`--state` and `--json`, as the commands that look into a device's state directory have them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edge_runtime.state import StateDirectory

State = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", envvar="EDGE_RUNTIME_STATE", help="State directory of the device."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def existing_state(option: Path | None) -> "StateDirectory":
    """The state directory that an option, the environment or the default means.

    Raises:
        ConfigError: there is none, or it cannot be reached.
    """
    from edge_runtime.errors import ConfigError
    from edge_runtime.state import StateDirectory

    state = StateDirectory.find(option)
    try:
        found = state.path.is_dir()
    except OSError as error:
        raise ConfigError(f"state directory {state.path} cannot be read: {error.strerror}") from None
    if not found:
        raise ConfigError(f"there is no state directory {state.path}; name it with --state")
    return state


def repeated(option: Path | None) -> str:
    """The option as a proposed command needs it too; empty where it was not typed."""
    import os
    import shlex

    from edge_runtime.state import ENVIRONMENT

    if option is None or str(option) == os.environ.get(ENVIRONMENT):
        return ""
    return f" --state {shlex.quote(str(option))}"
