"""What an earlier monitor left in the flight recorder: how far it came, and events it did not hand over."""

from dataclasses import dataclass
from pathlib import Path

from edge_runtime.monitor.flight import Damage, FlightRecord, read_flight

MOST_EVENTS = 64


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was left.

    Attributes:
        after: number of the last entry of this ring that was taken down; None where none was.
        unhanded: changes of state whose events the outbox may not have, oldest first, at most `MOST_EVENTS`.
        given_up: how many older ones there were.
    """

    after: int | None
    unhanded: tuple[FlightRecord, ...]
    given_up: int


def recall(folder: Path, ring: str | None) -> Recalled:
    """Look into all segments: an outbox may have been away for as long as the recorder reaches back.

    Args:
        folder: of the recorder.
        ring: which guard's ring this monitor reads; None where it has none.
    """
    after: int | None = None
    unhanded: list[FlightRecord] = []
    for record in read_flight(folder, Damage()):
        fields = record.fields
        sequence = fields.get("sequence")
        if ring is not None and fields.get("ring") == ring and isinstance(sequence, int):
            after = max(after or 0, sequence)
        if record.kind == "handed":
            unhanded.clear()
        elif record.kind in ("change", "fault") and fields.get("event"):
            unhanded.append(record)
    return Recalled(after, tuple(unhanded[-MOST_EVENTS:]), max(0, len(unhanded) - MOST_EVENTS))
