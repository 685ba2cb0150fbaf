"""A process that hands events to an outbox steadily, and writes down what it tried and what was acknowledged.

    python -m tests.rigs.submitter --state DIR --journal FILE [--rate N] [--count N] [--seed N]

It stands where a gate stands, and may be killed at any time: `try` is written before an event is handed over, `ack`
after the outbox has answered. An event that was tried and not acknowledged may be in the outbox or not. After a
restart it goes on with new events.
"""

import argparse
import itertools
import os
import random
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_S, SystemClock, WallLabel
from edge_runtime.lifeline import die_with_parent
from edge_runtime.outbox import OutboxClient, OutboxUnavailable, Submission
from edge_runtime.protocol import DecisionKind, uuid7
from edge_runtime.protocol.delivery import ApprovedEvent
from edge_runtime.protocol.event import EventTime
from edge_runtime.protocol.vocabulary import Severity
from edge_runtime.state import StateDirectory
from tests.rigs.deliveries import decision_for, event_record

_MOST_AT_ONCE = 4
_PAUSE_S = 0.02


def approved(
    severity: int = 1, *, ttl_s: float = 86_400.0, wall: WallLabel | None = None, **changes: Any
) -> Submission:
    """An event that may go, as the gate of a device with such a wall clock would hand it over."""
    now = wall or SystemClock().wall()
    key = uuid.UUID(uuid7(now.unix_ns)).bytes
    times = {}
    if wall is not None:
        seen = EventTime(
            monotonic_ns=1, media_s=0.5, wall=wall.isoformat(), synced=wall.synced, boot_id=wall.boot_id
        )
        times = {"started": seen, "at": seen}
    record = event_record(
        id=uuid7(now.unix_ns), severity=list(Severity)[severity].value, ttl_s=ttl_s, **times, **changes
    )
    decision = decision_for(record, key)
    body = ApprovedEvent(event=record, decision=decision).encode(compress=False)
    return Submission(
        key, DecisionKind.SEND, severity, round(ttl_s * NS_PER_S), body, receipt=decision.encode()
    )


@dataclass(frozen=True, slots=True)
class Journal:
    """What the submitter wrote down.

    Attributes:
        tried, acknowledged: keys.
    """

    tried: frozenset[bytes]
    acknowledged: frozenset[bytes]

    @classmethod
    def read(cls, path: Path) -> "Journal":
        """Of a file; a line that a kill cut off says nothing."""
        tried: set[bytes] = set()
        acknowledged: set[bytes] = set()
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            word, _, key = line.partition(" ")
            if len(key) == 32:
                (tried if word == "try" else acknowledged).add(bytes.fromhex(key))
        return cls(frozenset(tried), frozenset(acknowledged))


def main() -> int:
    """Submit until a signal or the count ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=40.0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    die_with_parent()
    client = OutboxClient(StateDirectory(options.state).outbox_socket, SystemClock())
    journal = os.open(options.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    rng = random.Random(options.seed)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in itertools.count():
        if options.count and number >= options.count:
            return 0
        events = [approved(rng.randrange(4)) for _ in range(rng.randint(1, _MOST_AT_ONCE))]
        _write(journal, "try", events)
        while not _put(client, events):
            time.sleep(_PAUSE_S)
        _write(journal, "ack", events)
        time.sleep(rng.uniform(0, 2 * len(events) / options.rate))
    return 0


def _put(client: OutboxClient, events: list[Submission]) -> bool:
    try:
        results = client.put(events)
    except OutboxUnavailable:
        return False
    if not all(result.accepted for result in results):
        raise SystemExit(f"refused: {results}")
    return True


def _write(journal: int, word: str, events: list[Submission]) -> None:
    os.write(journal, "".join(f"{word} {event.key.hex()}\n" for event in events).encode())


if __name__ == "__main__":
    sys.exit(main())
