"""The balance of events as a table: the device's ledger above, the server's counts below."""

from collections.abc import Sequence
from typing import Any

from fleet_server.cli.output import say, write, write_table

_FATES = ("delivered", "expired", "evicted", "rejected", "lost")
_COLUMNS = ("device~", "#accepted!", "#queued!", *(f"#{name}!" for name in _FATES))


def write_balance(epochs: Sequence[Any], most: int = 20) -> None:
    """Two lines for each outbox file of each device, those with unexplained events first.

    Args:
        epochs: as the API answers.
        most: pairs shown; the rest is summed up in a sentence.
    """
    if not epochs:
        say("no device has reported a ledger yet")
        return
    ordered = sorted(epochs, key=lambda epoch: (-epoch["unexplained"], epoch["device"], epoch["epoch"]))
    write_table(_COLUMNS, [line for epoch in ordered[:most] for line in _lines(epoch)])
    if len(ordered) > most:
        say(f"and {len(ordered) - most} more outbox files")
    unexplained = sum(epoch["unexplained"] for epoch in epochs)
    if unexplained:
        write(f"UNEXPLAINED EVENTS: {unexplained}")
    else:
        write(f"unexplained events: 0; not settled yet: {sum(epoch['waiting'] for epoch in epochs)}")


def _lines(epoch: Any) -> list[tuple[object, ...]]:
    """The device's own ledger, and what the server knows of the same numbers; dashes where nothing was reported."""
    ledger, settled = epoch["ledger"], epoch["settled"]
    counts = [ledger[name] if epoch["reported_ms"] else None for name in ("accepted", "queued", *_FATES)]
    known = [settled.get(name, 0) for name in _FATES]
    mark = f" !! {epoch['unexplained']}" if epoch["unexplained"] else ""
    return [(epoch["device"], *counts), (f"  server{mark}", "", epoch["waiting"], *known)]
