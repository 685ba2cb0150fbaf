"""Options that say a release's terms: the same when it is signed first and when other terms are signed for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.errors import ConfigError

Openings = Annotated[
    list[str] | None,
    typer.Option(
        "--open",
        metavar="SHARE[@TIME]",
        help="From when on which share of the devices may take it, for example 2%@2026-12-01T08:00Z. May be "
        "repeated, growing.",
    ),
]
RollbackTo = Annotated[
    list[int] | None,
    typer.Option(
        "--rollback-to",
        metavar="COUNTER",
        help="Release to which a device may be sent back. May be repeated.",
    ),
]
NoRollback = Annotated[bool, typer.Option("--no-rollback", help="Devices may be sent back to none.")]
Hardware = Annotated[
    list[str] | None,
    typer.Option("--hardware", metavar="NAME", help="Only for devices that answer to it. May be repeated."),
]
TermsOption = Annotated[
    Path | None,
    typer.Option(
        "--terms", metavar="FILE", help="YAML with fit, shadow, probation and trackers; each of them whole."
    ),
]
Notes = Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="For people.")]


def ways_back(rollback_to: Sequence[int] | None, *, none: bool) -> Sequence[int] | None:
    """Counters that a device may be sent back to; None where nothing was said.

    Raises:
        ConfigError: both were said.
    """
    if none and rollback_to:
        raise ConfigError("--no-rollback and --rollback-to say opposite things: give one of them")
    return () if none else rollback_to or None
