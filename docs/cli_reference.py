"""The pages docs/cli.md and docs/fleet-cli.md, made from the tables of commands and the commands' signatures."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from edge_runtime.cli.commands import COMMANDS, EVERYWHERE, CommandRow
from fleet_server.cli.commands import COMMANDS as FLEET_COMMANDS
from fleet_server.cli.commands import EVERYWHERE as FLEET_EVERYWHERE
from fleet_server.cli.commands import CommandRow as FleetCommandRow

HEAD = """\
# Command line

An error is one line on stderr; a configuration with several problems has one line for each. Results go to stdout,
so that `--json` can be piped. Every command takes `--help`; `edge-runtime --install-completion` lets the shell
complete commands, options and names of conditions.

Exit codes that mean the same for every command:

| code | meaning |
| --- | --- |
"""


FLEET_HEAD = """\
# Command line of the fleet

`fleet` runs the server and operates it; [the operator's guide](fleet.md) shows it at work. An error is one line on
stderr. Results go to stdout, what is said beside them to stderr, so that `--json` can be piped. Every command takes
`--help`; `fleet --install-completion` lets the shell complete commands.

Commands that speak to a server take `--server URL --token-file FILE --ca FILE` from anywhere, or `--data DIR` on
the server's own machine. The environment stands in for them: `FLEET_SERVER`, `FLEET_TOKEN` (a file, or the token
itself), `FLEET_CA`, `FLEET_DATA`; an option stands above all four.

Exit codes that mean the same for every command:

| code | meaning |
| --- | --- |
"""

Row = CommandRow | FleetCommandRow


def cli_page() -> str:
    """The reference of the device's command line."""
    return _page(HEAD, "edge-runtime", COMMANDS, EVERYWHERE)


def fleet_cli_page() -> str:
    """The reference of the operator's command line."""
    return _page(FLEET_HEAD, "fleet", FLEET_COMMANDS, FLEET_EVERYWHERE)


def _page(head: str, program: str, rows: Iterable[Row], everywhere: Mapping[int, str]) -> str:
    codes = "".join(f"| {code} | {_cell(meaning)} |\n" for code, meaning in everywhere.items())
    parts = [head + codes]
    for row in rows:
        for name, callback, text in _callbacks(row):
            parts.append(_command(f"{program} {row.name} {name}".strip(), callback, text, row.exits[name]))
    return "\n".join(parts).rstrip() + "\n"


def _callbacks(row: Row) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Name within the group, function and help of every command of a row."""
    target = getattr(import_module(row.module), row.attribute)
    if not isinstance(target, typer.Typer):
        yield "", target, _help(target, None)
        return
    yield from _members(target, "")


def _members(target: typer.Typer, before: str) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """The commands of a group, and of the groups within it."""
    alone = target.registered_callback  # a group that does something without a command
    if alone is not None and alone.callback is not None and alone.invoke_without_command is True:
        yield (
            before.strip(),
            alone.callback,
            _help(alone.callback, alone.help if isinstance(alone.help, str) else None),
        )
    for info in target.registered_commands:
        if info.callback is not None and not info.hidden:
            name = info.name or info.callback.__name__.replace("_", "-")
            yield before + name, info.callback, _help(info.callback, info.help)
    for group in target.registered_groups:
        if group.typer_instance is not None and not group.hidden:
            yield from _members(group.typer_instance, f"{before}{group.name} ")


def _help(callback: Callable[..., Any], given: str | None) -> str:
    text = inspect.cleandoc(given or callback.__doc__ or "")
    for section in ("\nArgs:", "\nReturns:", "\nRaises:", "\f"):
        text = text.split(section)[0]
    return text.rstrip()


class Parameter(NamedTuple):
    """One argument or option of a command."""

    names: str
    default: str
    meaning: str
    required: bool
    is_argument: bool


def _command(path: str, callback: Callable[..., Any], text: str, exits: Mapping[int, str]) -> str:
    parameters = list(_parameters(callback))
    arguments = [one.names if one.required else f"[{one.names}]" for one in parameters if one.is_argument]
    options = ["[OPTIONS]"] if any(not one.is_argument for one in parameters) else []
    lines = [f"## `{path}`\n", "```", " ".join([path, *arguments, *options]), "```\n", text + "\n"]
    if parameters:
        lines += ["| argument or option | default | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| `{one.names}` | {'**required**' if one.required else one.default} | {_cell(one.meaning)} |"
            for one in parameters
        ]
        lines.append("")
    lines += ["| exit code | meaning |", "| --- | --- |"]
    lines += [f"| {code} | {_cell(meaning)} |" for code, meaning in sorted(exits.items())]
    return "\n".join(lines) + "\n"


def _parameters(callback: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        hint, info, default, declared = hints[name], None, parameter.default, []
        if hint is typer.Context:
            continue
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            info = next((note for note in notes if isinstance(note, (ArgumentInfo, OptionInfo))), None)
            if info is not None and isinstance(info.default, str):
                declared.append(info.default)  # within Annotated the first words are names, not the default
        if isinstance(default, (ArgumentInfo, OptionInfo)):
            info, default = default, default.default
        declared += (info.param_decls if info is not None else None) or ()
        required = default is inspect.Parameter.empty or default is ...
        meaning = (info.help if info is not None else None) or ""
        is_argument = isinstance(info, ArgumentInfo) or (info is None and required)
        names = (
            (info and info.metavar) or name.upper() if is_argument else _option(name, hint, info, declared)
        )
        yield Parameter(names, _shown(default, hint), meaning, required, is_argument)


def _option(name: str, hint: Any, info: ArgumentInfo | OptionInfo | None, declared: list[str]) -> str:
    dashed = name.replace("_", "-")
    if hint is bool:
        return ", ".join(declared or [f"--{dashed}/--no-{dashed}"])
    metavar = (info.metavar if info is not None else None) or _metavar(hint)
    return ", ".join(declared or [f"--{dashed}"]) + f" {metavar}"


def _metavar(hint: Any) -> str:
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] or [hint]
    words = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}
    return words.get(kinds[0], "VALUE")


def _shown(default: Any, hint: Any) -> str:
    if default in (None, inspect.Parameter.empty, ..., False, ()) or default == []:
        return ""
    if isinstance(default, Enum):
        default = default.value
    return f"`{str(default).lower() if hint is bool else default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
