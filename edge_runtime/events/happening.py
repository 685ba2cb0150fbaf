"""What a rule says: a happening begins, changes, ends, or is over in the instant it is noticed."""

from dataclasses import dataclass
from enum import Enum

from edge_runtime.events.timeline import Moment


class Phase(Enum):
    """What is being said about a happening.

    `POINT` is over as soon as it is noticed; the others are the life of one that lasts. `INTERRUPTED` ends it
    because its observation stopped, not because it is known to be over.
    """

    POINT = "point"
    OPENED = "opened"
    UPDATED = "updated"
    CLOSED = "closed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Happening:
    """One statement of a rule.

    Attributes:
        phase: what is said.
        kind: event kind: `zone`, `line`, `dwell`, `occupancy`, `absence`, `count`, or that of a camera event.
        since: the frame in which it really began, before any hold or debounce had passed.
        track: the track that caused it; None when it is about a zone as a whole.
        key: which lasting happening of the rule this is; a rule has at most one open per key.
        direction: `enter`, `leave`, `left_to_right` or `right_to_left`.
        count: what the rule counted.
        duration_ns: observed time for which the condition held.
        reason: free text for a person.
    """

    phase: Phase
    kind: str
    since: Moment
    track: int | None = None
    key: int | str = "rule"
    direction: str | None = None
    count: int | None = None
    duration_ns: int | None = None
    reason: str | None = None
