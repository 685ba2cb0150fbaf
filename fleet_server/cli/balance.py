"""The balance of events as a table: the device's ledger above, the server's counts below."""

from collections.abc import Sequence
from typing import Any

from fleet_server.cli.output import print_rich, say, write

_FATES = ("delivered", "expired", "evicted", "rejected", "lost")


def write_balance(epochs: Sequence[Any], most: int = 20) -> None:
    """One pair of lines for each outbox file of each device, those with unexplained events first.

    Args:
        epochs: as the API answers.
        most: pairs shown; the rest is summed up in a sentence.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not epochs:
        say("no device has reported a ledger yet")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    table.add_column("device", no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column("side", no_wrap=True)
    for name in ("accepted", "queued", "deliv.", "expired", "evicted", "reject.", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(epochs, key=lambda epoch: (-epoch["unexplained"], epoch["device"], epoch["epoch"]))
    for epoch in ordered[:most]:
        ledger, settled = epoch["ledger"], epoch["settled"]
        counts = [str(ledger[name]) for name in ("accepted", "queued", *_FATES)]
        table.add_row(epoch["device"], "device" if epoch["reported_ms"] else "(silent)", *counts)
        known = [str(settled.get(name, 0)) for name in _FATES]
        style = "bold red" if epoch["unexplained"] else "dim"
        table.add_row(
            Text(epoch["epoch"][-12:], style="dim"), "server", "", str(epoch["waiting"]), *known, style=style
        )
    print_rich(table)
    if len(ordered) > most:
        say(f"and {len(ordered) - most} more outbox files")
    unexplained = sum(epoch["unexplained"] for epoch in epochs)
    waiting = sum(epoch["waiting"] for epoch in epochs)
    if unexplained:
        write(f"UNEXPLAINED EVENTS: {unexplained}")
    else:
        write(f"unexplained events: 0   not settled yet: {waiting}")
