"""Exit codes at the foot of `--help`, from the same tables as the reference pages."""

import textwrap
from collections.abc import Mapping
from typing import Any

_WIDTH = 78


def foot(codes: Mapping[int, str], more: str = "") -> str:
    """What click prints under a command's help.

    Args:
        codes: meaning of each code.
        more: a last line.
    """
    lines = []
    for code, meaning in sorted(codes.items()):
        lines += textwrap.wrap(meaning, _WIDTH, initial_indent=f"  {code:>3}  ", subsequent_indent=" " * 7)
    # the mark keeps click from filling the lines of a paragraph into one
    return "\n".join(["\b", "Exit codes:", *lines, *([more] if more else [])])


def add_feet(command: Any, exits: Mapping[str, Mapping[int, str]], program: str) -> None:
    """Put its exit codes under a command, or under each command of a group.

    Args:
        command: a command or group of the click that typer uses.
        exits: by command of the group, `""` for the command itself; `key new` is the command of a group within it.
        program: whose help has the codes that mean the same for every command.
    """
    more = f"Others: {program} --help."
    if "" in exits:
        command.epilog = foot(exits[""], more)
    for name, member in getattr(command, "commands", {}).items():
        if name in exits:
            member.epilog = foot(exits[name], more)
        within = {
            path.removeprefix(f"{name} "): codes
            for path, codes in exits.items()
            if path.startswith(f"{name} ")
        }
        if within:
            add_feet(member, within, program)
