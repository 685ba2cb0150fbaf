"""What a device should see: its newest assignments, and which of its terminal reports need not come again.

The second is signed when it is published: only then is there a director's key at hand, and none is kept in a row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Annotated

from pydantic import Field
from securesystemslib.signer import Signer
from sqlalchemy.engine import Connection

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.update import SETTLED_TYPE, Settled, SettledEnd
from edge_runtime.protocol.update_wire import Desired, Sealed
from edge_runtime.protocol.wire import WireRecord
from fleet_server.storage.writing import chunks, run, run_many

MOST_ASSIGNMENTS, MOST_SETTLED = 16, 64

_QUEUE = (
    "INSERT INTO desired_states (device, body, state, changed_ms) VALUES (?, ?, 'queued', ?) "
    "ON CONFLICT (device) DO UPDATE SET body = excluded.body, state = 'queued', "
    "changed_ms = excluded.changed_ms"
)
_QUEUE_CHANGED = f"{_QUEUE} WHERE desired_states.body <> excluded.body"


class DesiredDraft(WireRecord):
    """A desired state as it lies in the database.

    Attributes:
        assignments: envelopes of live ones.
        settled: numbers of assignments whose end is known, each with the number of the report that told it.
    """

    device: str
    assignments: Annotated[tuple[Sealed, ...], Field(max_length=MOST_ASSIGNMENTS)] = ()
    settled: Annotated[tuple[tuple[int, int], ...], Field(max_length=MOST_SETTLED)] = ()

    def message(self, signer: Signer | None) -> bytes:
        """What the device gets.

        Args:
            signer: with the director's key; without it the device is told of no end, and tells it again.
        """
        sealed = None
        if signer is not None and self.settled:
            ends = tuple(SettledEnd(seq=seq, report_no=number) for seq, number in self.settled)
            sealed = seal(Settled(device=self.device, ends=ends), SETTLED_TYPE, signer)
        return Desired(device=self.device, assignments=self.assignments, settled=sealed).encode()


def compose(device: str, sealed: Iterable[bytes], settled: Iterable[tuple[int, int]]) -> bytes:
    """The draft, encoded.

    Args:
        device: whose.
        sealed: envelopes of live assignments, the newest first.
        settled: assignments whose end is known and their reports' numbers, the one that was heard of last first.
    """
    newest = tuple(sealed)[:MOST_ASSIGNMENTS]
    heard = tuple(sorted(tuple(settled)[:MOST_SETTLED]))
    return DesiredDraft(device=device, assignments=newest, settled=heard).encode()


def queue(
    connection: Connection, devices: Collection[str], now_ms: int, *, again: Collection[str] = ()
) -> None:
    """Write down what devices should see, to be published where it is something else than before.

    Args:
        connection: of a transaction that has the turn of rollouts.
        devices: whose assignments or reports changed.
        now_ms: milliseconds since 1970.
        again: those of them that have not seen it, though it was published.
    """
    rows = []
    for some in chunks(sorted(devices)):
        marks = ", ".join("?" * len(some))
        sealed: dict[str, list[bytes]] = defaultdict(list)
        settled: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in run(connection, _LIVE.format(marks), *some):
            sealed[row.device].append(bytes(row.sealed))
        for row in run(connection, _SETTLED.format(marks), *some):
            settled[row.device].append((row.seq, row.report_no))
        rows += [(device, compose(device, sealed[device], settled[device]), now_ms) for device in some]
    forced = [row for row in rows if row[0] in again]
    changed = [row for row in rows if row[0] not in again]
    if forced:
        run_many(connection, _QUEUE, forced)
    if changed:
        run_many(connection, _QUEUE_CHANGED, changed)


_LIVE = (
    "SELECT device, sealed FROM assignments WHERE device IN ({}) AND live AND sealed IS NOT NULL "
    "ORDER BY device, seq DESC"
)
_SETTLED = (
    "SELECT device, seq, report_no FROM assignments WHERE device IN ({}) AND settled_ms IS NOT NULL "
    "ORDER BY device, settled_ms DESC, seq DESC"
)
