"""The end of the demo: the ledger on both sides, and whether it adds up."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edge_runtime.protocol.delivery import Ledger
from fleet_server.operators.balance import EpochBalance, compare

_FATES = ("delivered", "expired", "evicted", "rejected", "lost")
_ASIDE = ("kept", "held", "released", "dropped", "held_expired", "held_evicted")


@dataclass(frozen=True, slots=True)
class Balance:
    """Both sides after the run.

    Attributes:
        seen: event revisions that the camera's rules wrote.
        own: events that the device wrote of itself: changes of its guard's state.
        not_accepted: revisions that the outbox did not take.
        aside: what the gate counted beside the queue: kept, held and what became of that.
        held: revisions that wait for a person now.
        epoch: ledger of the device and the server's counts of the same numbers.
        stored: events of the device in the server's database.
        crops_named: different redacted crops that committed events name.
        crops_stored: those that the server has whole.
        bytes_up, bytes_down: through the cables.
        connections: attempts through the cable of the events, the refused ones too.
    """

    seen: int
    own: int
    not_accepted: int
    aside: Mapping[str, int]
    held: int
    epoch: EpochBalance
    stored: int
    crops_named: int
    crops_stored: int
    bytes_up: int
    bytes_down: int
    connections: int

    @property
    def unexplained(self) -> int:
        """Revisions that nobody can account for: at the gate, in the device's books, at the server."""
        queued = self.epoch.ledger.accepted - self.aside["released"]
        written = self.seen + self.own
        at_gate = abs(written - queued - self.aside["kept"] - self.aside["held"] - self.not_accepted)
        delivered = self.epoch.settled.get("delivered", 0)
        twice = abs(self.stored - delivered) + max(0, delivered - self.epoch.ledger.delivered)
        return at_gate + self.epoch.unexplained + twice

    @property
    def holds(self) -> bool:
        """Whether nothing is unexplained and nothing still on its way."""
        on_the_way = self.epoch.waiting + self.epoch.ledger.queued + self.crops_named - self.crops_stored
        return not (self.unexplained or on_the_way)

    def record(self) -> dict[str, Any]:
        """The balance for programs."""
        found = asdict(self)
        epoch = found.pop("epoch")
        ledger = self.epoch.ledger.model_dump(exclude={"v"})
        return {
            "holds": self.holds,
            "unexplained": self.unexplained,
            "device": ledger,
            "server": {**epoch["settled"], "waiting": self.epoch.waiting},
            **found,
        }


def weigh(
    device: str, outbox: Mapping[str, Any], health: Mapping[str, Any], counted: Mapping[str, int]
) -> Balance:
    """Put both sides together.

    Args:
        device: id.
        outbox: answer of `edge-runtime outbox status --json`, after the run.
        health: answer of the server's `/v1/health`.
        counted: what was counted beside them, by the names of `Balance`: `seen`, `own`, `crops_named`,
            `bytes_up`, `bytes_down` and `connections`.
    """
    ledger = Ledger.model_validate({name: outbox[name] for name in ("accepted", "queued", *_FATES)})
    mine = [entry for entry in health["balance"] if entry["device"] == device]
    settled: Mapping[str, int] = mine[0]["settled"] if mine else {}
    return Balance(
        not_accepted=sum(outbox["not_accepted"].values()),
        aside={name: outbox["gate"][name] for name in _ASIDE},
        held=outbox["held"],
        epoch=compare(device, outbox["epoch"], ledger, settled, high=mine[0]["high"] if mine else 0),
        stored=health["events"],
        crops_stored=health["evidence"].get("complete", 0),
        **counted,
    )


def balance_screen(balance: Balance) -> RenderableType:
    """The balance for people, within 80 columns."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("the ledger, both sides", min_width=26)
    table.add_column("device", justify="right", min_width=8)
    table.add_column("server", justify="right", min_width=8)
    table.add_column("", style="dim")
    for row in _rows(balance):
        table.add_row(*row)
    style = "bold green" if balance.holds else "bold red"
    table.add_row(
        Text("unexplained", style=style),
        "",
        Text(str(balance.unexplained), style=style),
        Text("it adds up", style=style) if balance.holds else Text(_why(balance), style=style),
    )
    return Group(table, _cable(balance))


def _rows(balance: Balance) -> list[tuple[str, str, str, str]]:
    ledger, settled = balance.epoch.ledger, balance.epoch.settled
    rows = [("event revisions seen", str(balance.seen), "", "lines of events.ndjson")]
    rows += [("and of the device itself", str(balance.own), "", "changes of its guard's state")][
        : balance.own
    ]
    rows += [("  held for a person", str(balance.held), "", "they never left the device")][: balance.held]
    rows += [("  kept", str(balance.aside["kept"]), "", "need nobody")][: balance.aside["kept"]]
    rows += [("  not accepted", str(balance.not_accepted), "", "")][: balance.not_accepted]
    rows += [("  accepted by the outbox", str(ledger.accepted), "", "on disk before anybody sent them")]
    for name in _FATES:
        there, here = settled.get(name, 0), getattr(ledger, name)
        if name == "delivered":
            rows.append(("    delivered", str(here), str(there), "committed, each of them once"))
        elif here or there:
            rows.append((f"    {name}", str(here), str(there), ""))
    rows.append(("    queued, not settled", str(ledger.queued), str(balance.epoch.waiting), ""))
    if balance.crops_named or balance.crops_stored:
        rows.append(
            (
                "redacted crops",
                str(balance.crops_named),
                str(balance.crops_stored),
                "equal ones are stored once",
            )
        )
    return rows


def _why(balance: Balance) -> str:
    if balance.unexplained:
        return "THIS IS A DEFECT"
    return "not everything has arrived"


def _cable(balance: Balance) -> Text:
    up, down = balance.bytes_up / 1000, balance.bytes_down / 1000
    return Text.assemble(
        ("over the cable: ", "dim"),
        f"{up:.1f} kB up, {down:.1f} kB down, {balance.connections} attempts to connect",
    )
