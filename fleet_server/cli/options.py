"""Options that several commands have, written once: a parameter of a command that a group of options stands for."""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar, get_type_hints

from fleet_server.cli.client import connected
from fleet_server.cli.target import Ca, Data, Server, TokenFile

ResultT = TypeVar("ResultT")


def stands_for(
    parameter: str, options: Mapping[str, Any], make: Callable[..., AbstractContextManager[Any]]
) -> Callable[[Callable[..., ResultT]], Callable[..., ResultT]]:
    """A decorator that puts a group of options in the place of one parameter of a command.

    Args:
        parameter: that is made of the options; typer never sees it.
        options: annotation by name of each option; the default of every one is None.
        make: is called with the options by name, and entered for the time of the command.
    """

    def decorate(command: Callable[..., ResultT]) -> Callable[..., ResultT]:
        @functools.wraps(command)
        def called(**given: Any) -> ResultT:
            with make(**{name: given.pop(name, None) for name in options}) as made:
                return command(**{parameter: made}, **given)

        hints = get_type_hints(command, include_extras=True)
        own = [
            found.replace(annotation=hints[found.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for found in inspect.signature(command).parameters.values()
            if found.name != parameter
        ]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in options.items()
        ]
        needed = [found for found in own if found.default is inspect.Parameter.empty]
        others = [found for found in own if found.default is not inspect.Parameter.empty]
        parameters = [*needed, *added, *others]
        result = hints.get("return")
        called.__signature__ = inspect.Signature(parameters, return_annotation=result)  # type: ignore[attr-defined]
        called.__annotations__ = {found.name: found.annotation for found in parameters} | {"return": result}
        del called.__wrapped__  # typer must see these parameters, not the command's
        return called

    return decorate


on_server = stands_for(
    "client", {"server": Server, "token_file": TokenFile, "ca": Ca, "data": Data}, connected
)
"""Gives a command the four options that name a server, and as `client` a `FleetClient` of the one they mean."""
