"""`edge-runtime doctor`: what this machine has for running models, and what it lacks."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edge_runtime.cli.state_option import Json, State

if TYPE_CHECKING:
    from edge_runtime.doctor import Facts

_MOST_BYTES: Final = 4 << 20
"""Of a file of facts; a real one has a few thousand."""


def doctor(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="Configuration whose models are opened.", show_default=False),
    ] = None,
    state: State = None,
    as_json: Json = False,
    timeout: Annotated[float, typer.Option(min=1, max=3600, help="Seconds for opening each model.")] = 60,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Where sys, proc, etc, usr and var lie.")
    ] = Path("/"),
    facts: Annotated[
        Path | None,
        typer.Option(
            "--facts",
            metavar="FILE",
            help="Judge what doctor --json printed on another device; - reads stdin.",
        ),
    ] = None,
) -> int:
    """Say what this machine has for running models, what it lacks, and what to do about it.

    JetPack, TensorRT, CUDA, GPU, decoder, power mode, clock, memory and disk. With CONFIG, each of its models is
    opened, and the doctor fails where another provider runs it than the first that it asks for. Nothing needs root.
    """
    from edge_runtime.cli.report import write_json
    from edge_runtime.doctor import exit_code, judge, screen_lines

    found = _recorded(facts, config) if facts is not None else _collected(config, state, root, timeout)
    findings = judge(found)
    code = exit_code(findings)
    if as_json:
        told = [{"severity": item.severity, "part": item.part, "text": item.text} for item in findings]
        write_json({"well": code == 0, "findings": told, "facts": found.model_dump(mode="json")})
        return code
    for line in screen_lines(found, findings):
        typer.echo(line)
    return code


def _recorded(path: Path, config: Path | None) -> "Facts":
    from edge_runtime.doctor import read_facts
    from edge_runtime.errors import ConfigError

    if config is not None:
        raise ConfigError(
            "--facts judges another device, whose models cannot be opened here: leave out CONFIG"
        )
    return read_facts(_read(path).decode("utf-8", errors="replace"))


def _read(path: Path) -> bytes:
    """What a file of facts holds, or stdin where the path is `-`; never waits for a pipe, nor reads without end."""
    from edge_runtime.config.regular_file import NotRegularError, open_regular
    from edge_runtime.errors import ConfigError

    wanted = "name a file that `edge-runtime doctor --json` printed, or pipe it to --facts -"
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with open_regular(path) as file:
                data = file.read(_MOST_BYTES + 1)
    except NotRegularError as error:
        raise ConfigError(f"{path}: is {error.kind}; {wanted}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; {wanted}") from None
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; {wanted}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}: is larger than {_MOST_BYTES >> 20} MiB; {wanted}")
    return data


def _collected(config: Path | None, state: Path | None, root: Path, timeout_s: float) -> "Facts":
    from edge_runtime.clock import SystemClock
    from edge_runtime.config import load_config
    from edge_runtime.doctor import Look, children_of, collect
    from edge_runtime.errors import ConfigError
    from edge_runtime.node.places import state_of
    from edge_runtime.state import StateDirectory
    from edge_runtime.telemetry import configure_logging

    configure_logging("critical")
    loaded = None if config is None else load_config(config)
    kept = (StateDirectory.find(state) if loaded is None else state_of(loaded, state)).path
    if not os.path.isdir(root):  # noqa: PTH112 - pathlib raises where a name is too long or is not allowed
        raise ConfigError(
            f"{root}: there is no such folder; --root names one that has proc, sys and etc in it"
        )
    if os.path.lexists(kept) and not os.path.isdir(kept):  # noqa: PTH112
        raise ConfigError(f"{kept} is no folder; name the state directory with --state")
    clock = SystemClock()
    return collect(
        Look.at(clock, root),
        clock,
        kept,
        loaded=loaded,
        timeout_s=timeout_s,
        open_model=None if config is None else children_of(config, state),
    )
