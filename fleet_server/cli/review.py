"""`fleet review`: what devices hold for a person, and what that person decides."""

import time
from enum import Enum
from typing import Annotated, Any

import typer

from edge_runtime.clock import NS_PER_MS, NS_PER_S, SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient
from fleet_server.cli.commands import EXIT_FAILED
from fleet_server.cli.errors import NotFound
from fleet_server.cli.event_filters import DeviceOption
from fleet_server.cli.names import whole_device
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, size, width, write_json, write_table
from fleet_server.cli.target import Json
from fleet_server.in_words import span

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Release or drop what devices hold.")

Item = Annotated[str, typer.Argument(metavar="ITEM", help="Key of the item, or enough of its end.")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; it goes into the receipt and the audit.")
]
Wait = Annotated[
    int,
    typer.Option("--wait", min=0, max=600, metavar="SECONDS", help="Wait so long for the device's answer."),
]
_POLL_S = 0.25
_LISTED = 1000


class Evidence(str, Enum):
    """What a release from afar may let go beside the event."""

    NONE = "none"
    REDACTED = "redacted"


_SHORTEST = 6
_SHOWN = 12  # the end of a key is random; its beginning is the time, and alike for many


@app.command(name="list")
@on_server
def list_(
    client: FleetClient,
    device: DeviceOption = None,
    json: Json = False,
) -> None:
    """List what devices hold, as far as their policy lets the fleet know; those that end first come first."""
    found = _held(client, device)
    if json:
        write_json(found)
        return
    now = SystemClock().wall().unix_ns // NS_PER_MS
    write_table(
        ("item!", "device~", "camera", "rule", "class", "#size!", "#ends in!", "asked!"),
        (_row(entry, now) for entry in found),
        "nothing is held that the fleet may know of",
    )
    if len(found) >= _LISTED:
        say(f"the {_LISTED} that end first; --device shows those of one device")


@app.command()
@on_server
def release(
    client: FleetClient,
    item: Item,
    reason: Reason,
    device: DeviceOption = None,
    evidence: Annotated[
        Evidence, typer.Option("--evidence", help="How much of its crop goes with it.")
    ] = Evidence.NONE,
    wait: Wait = 20,
    json: Json = False,
) -> int:
    """Ask a device to let a held item go. The device's policy has the last word."""
    asked = {"reason": reason, "evidence": evidence.value}
    return _decide(client, "release", item, device, asked, wait, json=json)


@app.command()
@on_server
def drop(
    client: FleetClient,
    item: Item,
    reason: Reason,
    device: DeviceOption = None,
    wait: Wait = 20,
    json: Json = False,
) -> int:
    """Ask a device to destroy a held item."""
    return _decide(client, "drop", item, device, {"reason": reason}, wait, json=json)


def _decide(
    client: FleetClient,
    act: str,
    item: str,
    device: str | None,
    asked: dict[str, str],
    wait: int,
    *,
    json: bool,
) -> int:
    entry = _found(client, item, device)
    command = client.post(f"/v1/held/{entry['device']}/{entry['key']}/{act}", asked)
    clock = SystemClock()
    until_ns = clock.monotonic_ns() + wait * NS_PER_S
    while command["state"] in ("queued", "sent") and clock.monotonic_ns() < until_ns:
        time.sleep(_POLL_S)
        command = client.get(f"/v1/commands/{command['id']}")
    if json:
        write_json(command)
    elif command["state"] == "done":
        more = (command["result"] or "").partition("; ")[2]  # how a crop was redacted, where one went along
        say(f"{entry['device']}: {act} of {entry['key'][-_SHOWN:]} done" + (f"; {more}" if more else ""))
    elif command["state"] in ("queued", "sent"):
        say(f"{entry['device']} has not answered; it will be asked for an hour (command {command['id']})")
    else:
        say(f"{entry['device']}: {command['result'] or command['state']}")
    waited_in_vain = wait > 0 and command["state"] in ("queued", "sent")
    return EXIT_FAILED if waited_in_vain or command["state"] in ("failed", "expired") else 0


def _found(client: FleetClient, item: str, device: str | None) -> Any:
    wanted = item.strip().lower()
    if len(wanted) < _SHORTEST or not all(digit in "0123456789abcdef" for digit in wanted):
        raise ConfigError(f"ITEM is at least {_SHORTEST} hexadecimal digits of a key in fleet review list")
    held = _held(client, device)
    found = [entry for entry in held if entry["key"].endswith(wanted) or entry["key"].startswith(wanted)]
    if not found:
        raise NotFound(f"no device holds an item {wanted}: see fleet review list")
    if len(found) > 1:
        raise ConfigError(f"{len(found)} items have a key with {wanted}: give more of it, or --device")
    return found[0]


def _held(client: FleetClient, device: str | None) -> list[Any]:
    only = None if device is None else whole_device(client, device)
    return list(client.get("/v1/held", device=only, limit=_LISTED)["held"])


def _row(entry: Any, now_ms: int) -> tuple[object, ...]:
    receipt = (entry["item"] or {}).get("receipt", {})
    return (
        entry["key"] if width() is None else entry["key"][-_SHOWN:],
        entry["device"],
        receipt.get("camera"),
        receipt.get("rule"),
        receipt.get("data_class"),
        size(entry["item"]["bytes"]) if entry["item"] else None,
        span(entry["expires_ms"] - now_ms),
        entry["command"],
    )
