"""`fleet device`: invite, list, accept, label and revoke devices, and what they were asked to run."""

import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient, segment
from fleet_server.cli.device_forms import ends, presence_of, show_device
from fleet_server.cli.names import whole_device
from fleet_server.cli.options import on_server
from fleet_server.cli.output import say, when, width, write, write_json, write_table
from fleet_server.cli.target import Json
from fleet_server.cli.values import labels_of, span_s
from fleet_server.cli.way_forms import history_rows

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Invite, accept and revoke devices.")

Device = Annotated[
    str, typer.Argument(metavar="DEVICE", help="Id of the device; its middle may be an ellipsis.")
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; it goes into the audit.")]
_MAX_SERIALS_BYTES = 900 * 1024


@app.command()
@on_server
def invite(
    client: FleetClient,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="ID", help="The id that it gets; without it, its own wish or a new one."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="A label that it gets; may be repeated."),
    ] = None,
    serials: Annotated[
        Path | None,
        typer.Option(
            "--serials",
            metavar="FILE",
            help="One claim for many: a file with a serial number on each line; - is stdin.",
        ),
    ] = None,
    approval: Annotated[
        bool, typer.Option("--approval", help="Devices wait for fleet device approve.")
    ] = False,
    expires: Annotated[
        str, typer.Option("--expires", metavar="SPAN", help="How long it can be used: 1m to 30d.")
    ] = "24h",
    json: Json = False,
) -> None:
    """Make an enrolment token: for one device, or for a list of serial numbers. It is shown this once.

    The token is all that stdout gets: T=$(fleet device invite …).
    """
    body = {
        "device": device,
        "labels": labels_of(label or ()),
        "serials": None if serials is None else _serials(serials),
        "needs_approval": approval,
        "expires_s": _invitation_s(expires),
    }
    made = client.post("/v1/invitations", body)
    if json:
        write_json(made)
        return
    write(made["token"])
    uses = "one device" if made["uses"] == 1 else f"{made['uses']} devices"
    where = "On the device, with the token in FILE" if width() is None else "On the device"
    say(f"for {uses}, until {when(made['expires_ms'])} UTC. {where}:")
    for line in _how_to_enrol(made):
        say(line)


@app.command(name="list")
@on_server
def list_(
    client: FleetClient,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="active, pending, revoked or removed; without it, all but removed.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List devices."""
    found = list(client.pages("/v1/devices", "devices", "after", state=state))
    if json:
        write_json(found)
        return
    now = SystemClock().wall().unix_ns // NS_PER_MS
    write_table(
        ("device~", "state!", "presence!", "#queued!", "#held!", "cert ends!", "labels"),
        (
            (
                d["id"],
                d["state"] + (" +key" if d["pending_key"] and d["state"] != "pending" else ""),
                presence_of(d, now),
                d["health"]["ledger"]["queued"] if d["health"] else None,
                d["held"] or None,
                None if d["not_after_ms"] is None else ends(d["not_after_ms"] - now),
                " ".join(f"{key}={value}" for key, value in sorted(d["labels"].items())) or None,
            )
            for d in found
        ),
        "no devices: fleet device invite makes a token for one",
    )


@app.command()
@on_server
def show(
    client: FleetClient,
    device: Device,
    json: Json = False,
) -> None:
    """Show one device: who it is, its certificates, what it last said, and its balance of events."""
    device = whole_device(client, device)
    found = client.get(f"/v1/devices/{segment(device)}")
    if json:
        write_json(found)
    else:
        show_device(found)


@app.command()
@on_server
def approve(
    client: FleetClient,
    device: Device,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="SHA256", help="Accept only this public key (see fleet device show)."),
    ] = None,
    json: Json = False,
) -> None:
    """Accept a device that waits, or a new key for a known device; its old certificate is out at once."""
    device = whole_device(client, device)
    found = client.post(f"/v1/devices/{segment(device)}/approve", {"key_sha256": key})
    _done(found, f"{device} is accepted", json=json)


@app.command()
@on_server
def revoke(
    client: FleetClient,
    device: Device,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Put a device out at once: the broker ends its connection, and its certificate is worth nothing any more."""
    device = whole_device(client, device)
    found = client.post(f"/v1/devices/{segment(device)}/revoke", {"reason": reason})
    _done(found, f"{device} is revoked; fleet device invite --device {device} lets it come back", json=json)


@app.command()
@on_server
def remove(
    client: FleetClient,
    device: Device,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Take a device out of the lists, and out of the fleet where it still is in it. Its events stay."""
    device = whole_device(client, device)
    found = client.post(f"/v1/devices/{segment(device)}/remove", {"reason": reason})
    _done(found, f"{device} is removed", json=json)


@app.command()
@on_server
def label(
    client: FleetClient,
    device: Device,
    labels: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE…", help="Labels to set; KEY- takes one away.")
    ],
    json: Json = False,
) -> None:
    """Set or take away labels of a device."""
    gone = [text for text in labels if text.endswith("-") and "=" not in text]
    body: dict[str, str | None] = dict(labels_of([text for text in labels if text not in gone]))
    body |= {text[:-1]: None for text in gone}
    device = whole_device(client, device)
    found = client.patch(f"/v1/devices/{segment(device)}/labels", {"labels": body})
    shown = " ".join(f"{key}={value}" for key, value in sorted(found["labels"].items()))
    _done(found, f"{device}: {shown or 'no labels'}", json=json)


@app.command()
@on_server
def history(
    client: FleetClient,
    device: Device,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """Show what a device was asked to run, what it answered and how that left it, the newest first.

    fleet rollout explain says why it has a release now, or has it not.
    """
    device = whole_device(client, device)
    found = client.get(f"/v1/devices/{segment(device)}/updates", limit=limit)["assignments"]
    if json:
        write_json(found)
        return
    columns = ("#seq!", "asked (UTC)!", "rollout!", "slot", "act!", "release", "answer", "left", "said")
    write_table(columns, history_rows(found), f"{device} was never asked anything")
    if len(found) == limit:
        say(f"the newest {limit}; --limit shows more")


def _done(found: Any, text: str, *, json: bool) -> None:
    if json:
        write_json(found)
    else:
        say(text)


def _how_to_enrol(made: Any) -> list[str]:
    """The command to paste. The token is in it on a terminal alone: stderr of a program is often a log."""
    token = "@FILE" if width() is None else made["token"]
    url = made["server"]
    if url is None:
        return [
            f"  edge-runtime enrol --server URL --token {token}",
            "URL is not known: http.port in settings.toml is 0 and no server runs; start it, or name a port there",
        ]
    lines = [f"  edge-runtime enrol --server {url} --token {token}"]
    if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        lines.append(
            "works on this machine alone: name the server first in hosts of settings.toml (fleet init --host NAME)"
        )
    return lines


def _invitation_s(expires: str) -> int:
    seconds = span_s(expires, "--expires")
    if not 60 <= seconds <= 30 * 86_400:
        raise ConfigError("--expires: an invitation can be used for 1m to 30d")
    return seconds


def _serials(path: Path) -> list[str]:
    try:
        if str(path) == "-":
            text = sys.stdin.read(_MAX_SERIALS_BYTES + 1)
        else:
            with path.open(encoding="utf-8") as stream:
                text = stream.read(_MAX_SERIALS_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--serials {path}: {getattr(error, 'strerror', None) or 'not text'}") from None
    found = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not found or len(text) > _MAX_SERIALS_BYTES:
        raise ConfigError(f"--serials {path}: between 1 and 10,000 serial numbers, one on each line")
    return found
