"""Both sides held against each other at the end of a run: the same sums in every rig."""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from edge_runtime.protocol.delivery import Ledger
from sim.scenario.trace import Trace

_FULL = ("the disk is full", "the disk has no room")


def tells_full_disk(sentences: Iterable[str]) -> bool:
    """Whether an outbox says that its disk is full, or that what it gave up for that finds no room again."""
    return any(sentence.startswith(_FULL) for sentence in sentences)


def account(trace: Trace, load: AbstractSet[bytes], rows: Counter[bytes], ledger: Ledger) -> None:
    """Count into the trace what became of the load.

    Args:
        trace: of the run.
        load: keys of the steady load that the outbox accepted.
        rows: how often the server has each key, of whatever origin.
        ledger: of the outbox; what it gave up is no loss, because it is counted.
    """
    given_up = ledger.queued + ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
    missing = len(load - rows.keys())
    trace.counts["accepted"] = len(load)
    trace.counts["delivered"] = len(load & rows.keys())
    trace.counts["duplicates"] = sum(count - 1 for count in rows.values())
    trace.counts["expired"] = ledger.expired
    trace.counts["lost"] = max(0, missing - given_up) + (0 if ledger.balances else 1)
