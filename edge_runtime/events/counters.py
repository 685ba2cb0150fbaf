"""What the events of one camera come to, for metrics and the summary at the end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from edge_runtime.protocol import EventRecord, EventState


@dataclass(frozen=True, slots=True)
class EventCounters:
    """A snapshot; every number only grows.

    Attributes:
        emitted: revisions by (rule, state); what the camera says of itself has the rule `@camera`.
        late: revisions marked late, by rule.
        suppressed: happenings refused, by (rule, `cooldown` or `rate`).
        refused_too_large: revisions that could not be brought under the size cap.
        evidence_kept, evidence_failed: crops written, and crops that could not be.
        stale_frames: frames that came after a newer one and were not evaluated.
    """

    emitted: Mapping[tuple[str, EventState], int]
    late: Mapping[str, int]
    suppressed: Mapping[tuple[str, str], int]
    refused_too_large: int
    evidence_kept: int
    evidence_failed: int
    stale_frames: int


@dataclass(slots=True)
class EventTally:
    """The growing form. All keys exist from the start, so that another thread can copy at any time."""

    emitted: dict[tuple[str, EventState], int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    refused_too_large: int = 0
    evidence_kept: int = 0
    evidence_failed: int = 0
    stale_frames: int = 0

    @classmethod
    def of(cls, rules: Iterable[str]) -> "EventTally":
        """Zero for every rule."""
        names = list(rules)
        return cls({(name, state): 0 for name in names for state in EventState}, dict.fromkeys(names, 0))

    def add(self, record: EventRecord) -> None:
        """Count a revision that goes out."""
        self.emitted[record.rule, record.state] += 1
        self.late[record.rule] += record.late

    def snapshot(self, suppressed: Mapping[tuple[str, str], int]) -> EventCounters:
        """The numbers now, with those that the lifecycles hold."""
        return EventCounters(
            dict(self.emitted),
            dict(self.late),
            dict(suppressed),
            self.refused_too_large,
            self.evidence_kept,
            self.evidence_failed,
            self.stale_frames,
        )
