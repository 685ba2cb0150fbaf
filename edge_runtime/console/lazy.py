"""A typer group that reads a table of commands and imports one only when it is invoked."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import typer
from typer.core import TyperGroup

from edge_runtime.console.exits import add_feet, foot


class Row(Protocol):
    """One command or group of commands in a table."""

    @property
    def name(self) -> str:
        """As typed."""
        ...

    @property
    def module(self) -> str:
        """Where it lives; imported when it is invoked."""
        ...

    @property
    def attribute(self) -> str:
        """A `typer.Typer` (a group) or a function (one command) in that module."""
        ...

    @property
    def help(self) -> str:
        """One line."""
        ...

    @property
    def exits(self) -> Mapping[str, Mapping[int, str]]:
        """Meaning of exit codes by command of the group, `""` for the row itself."""
        ...


def load(row: Row, program: str = "") -> Any:
    """The command object behind a row: imports its module.

    Args:
        row: of the table.
        program: as typed, for the foot of its help.

    Returns:
        A command or group of the click that typer uses.
    """
    target = getattr(import_module(row.module), row.attribute)
    if not isinstance(target, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(row.name)(target)
        target = single
    command = typer.main.get_command(target)
    command.name = row.name
    add_feet(command, row.exits, program)
    return command


class LazyGroup(TyperGroup):
    """Commands come from a table of rows, which a subclass names; `--help` reads the table only.

    Attributes:
        rows: the commands.
        everywhere: exit codes that mean the same for every command.
    """

    rows: Sequence[Row] = ()
    everywhere: Mapping[int, str] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the table."""
        return [row.name for row in self.rows]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Imports and builds the command, or None if there is no such name."""
        row = next((row for row in self.rows if row.name == cmd_name), None)
        return None if row is None else load(row, ctx.find_root().info_name or "")

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        """The table as the help's section of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, row.help) for row in self.rows])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The exit codes."""
        self.epilog = foot(self.everywhere)
        super().format_epilog(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As click does, but a misspelt name never imports the others to find what was meant."""
        names = [row.name for row in self.rows]
        if args and args[0] not in names and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only for who misspelt

            near = get_close_matches(args[0], names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"commands are {', '.join(names)}"
            ctx.fail(f"there is no command {args[0]}; {hint}")
        return super().resolve_command(ctx, args)
