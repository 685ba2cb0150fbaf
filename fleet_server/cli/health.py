"""`fleet health`: the server, its devices, rollouts, what needs a person, and the balance of events."""

from typing import Any

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.cli.balance import write_balance
from fleet_server.cli.client import FleetClient
from fleet_server.cli.commands import EXIT_FAILED
from fleet_server.cli.device_forms import ends
from fleet_server.cli.options import on_server
from fleet_server.cli.output import clean, write, write_json
from fleet_server.cli.target import Json
from fleet_server.in_words import span


@on_server
def health(client: FleetClient, json: Json = False) -> int:
    """Show the server, its devices and the balance of events on both sides.

    Of each outbox file the first line is the device's own ledger as it last reported it; the second is what the
    server knows of the same sequence numbers, with those that are not settled yet under "queued".
    """
    found = client.get("/v1/health")
    if json:
        write_json(found)
    else:
        _show(found)
    return 0 if found["ready"]["ready"] and found["unexplained"] == 0 else EXIT_FAILED


def _show(found: Any) -> None:
    now = SystemClock().wall().unix_ns // NS_PER_MS
    for part in found["ready"]["parts"]:
        word = {True: "works", False: "DOWN", None: "unknown"}[part["ready"]]
        _line(part["name"], f"{word}: {part['detail']}")
    devices = ", ".join(f"{count} {state}" for state, count in found["devices"].items()) or "none"
    _line("devices", f"{devices}; {found['online']} online")
    newest = "" if found["newest_ms"] is None else f", the newest {span(now - found['newest_ms'])} ago"
    _line("events", f"{found['events']} committed{newest}")
    _line("held", f"{found['held']} items wait for a person")
    _line("refused", _counted(found["dead_letters"]))
    _line("evidence", _counted(found["evidence"]))
    certificates = ", ".join(f"{name} {ends(end - now)}" for name, end in found["certificates"].items())
    _line("cert ends", certificates or "-")
    signed = ", ".join(f"{role} {ends(end - now)}" for role, end in found["metadata"].items())
    _line("signed", signed or "nothing yet: fleet keys init begins the ceremony of releases")
    for rollout in found["rollouts"]:
        stuck = f", {rollout['stuck']} stuck" if rollout["stuck"] else ""
        since = span(now - rollout["since_ms"])
        _line(
            rollout["id"],
            f"{rollout['state']} for {since}, {rollout['working']} at it{stuck}: {rollout['name']}",
        )
    for warning in found["warnings"]:
        _line("WARNING", f"{warning['subject']}: {warning['text']}")
    write_balance(found["balance"])


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _line(name: str, text: str) -> None:
    write(f"{clean(name):<10} {clean(text)}")
