"""From what a rule says to revisions of events: ids, states, held-back openings and bounded updates.

Every id reaches exactly one last revision, `ended` or `interrupted`; a happening that is over in the instant
it is noticed is one revision with the state `ended`. What cooldown or rate cap refuse is counted; if it is
still going on when there is room again, it becomes an event then, because an alarm that began in a noisy
minute must not stay unsaid for the hours that it lasts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from edge_runtime.clock import NS_PER_S
from edge_runtime.events.admission import WINDOW_NS, Admission, Cause, Verdict
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.timeline import Moment
from edge_runtime.protocol import Box, EventState, EvidenceRef

UPDATE_EVERY_NS = NS_PER_S
"""At most one `updated` revision of an event in this time."""

SUMMARY_EVERY_NS = 10 * NS_PER_S
"""The same for the event that sums up what a rate cap refused."""


@dataclass(slots=True)
class Subject:
    """What later revisions of an event repeat from its first: who it was about and its evidence."""

    label: str | None = None
    confidence: float | None = None
    box: Box | None = None
    evidence: EvidenceRef | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision to be written as a record."""

    id: str
    number: int
    state: EventState
    happening: Happening
    subject: Subject


@dataclass(slots=True)
class _Open:
    id: str
    happening: Happening
    said_ns: int
    number: int = 1
    said_count: int | None = None
    subject: Subject = field(default_factory=Subject)

    def revise(self, state: EventState, now_ns: int) -> Revision:
        self.number += 1
        self.said_ns, self.said_count = now_ns, self.happening.count
        return Revision(self.id, self.number, state, self.happening, self.subject)

    def due(self, now_ns: int, every_ns: int) -> bool:
        """Whether its number differs from the one last written, and that was long enough ago."""
        return self.happening.count != self.said_count and now_ns - self.said_ns >= every_ns


class Lifecycle:
    """Events of one rule, or of the camera itself.

    Times are passed in, in nanoseconds on one clock that never runs backwards.

    Args:
        cooldown_ns: see `Admission`.
        max_per_minute: see `Admission`.
        new_id: makes the id of a new event.
    """

    def __init__(self, *, cooldown_ns: int, max_per_minute: int, new_id: Callable[[], str]) -> None:
        self._admission = Admission(cooldown_ns, max_per_minute)
        self._new_id = new_id
        self._open: dict[Cause, _Open] = {}
        self._held: dict[Cause, tuple[Happening, Verdict]] = {}
        self._summary: _Open | None = None
        self._capped_ns = 0
        self.suppressed = {Verdict.COOLDOWN: 0, Verdict.RATE: 0}

    def take(self, happening: Happening, moment: Moment, now_ns: int) -> list[Revision]:
        """What one statement of the rule makes to be written."""
        match happening.phase:
            case Phase.POINT:
                return self._point(happening, moment, now_ns)
            case Phase.OPENED:
                return self._begin(happening, moment, now_ns)
            case Phase.UPDATED:
                return self._update(happening, now_ns)
            case Phase.CLOSED | Phase.INTERRUPTED:
                return self._finish(happening, now_ns)

    def due(self, now_ns: int) -> list[Revision]:
        """What has become due without a new statement; to be asked once per frame."""
        revisions: list[Revision] = []
        for key, (happening, _) in list(self._held.items()) if self._held else ():
            if self._admission.ask(_cause(happening), now_ns) is Verdict.ADMITTED:
                del self._held[key]
                revisions.append(self._opened(happening, now_ns))
        revisions += [
            event.revise(EventState.UPDATED, now_ns)
            for event in self._open.values()
            if event.due(now_ns, UPDATE_EVERY_NS)
        ]
        summary = self._summary
        if summary is not None:
            if now_ns - self._capped_ns >= WINDOW_NS:
                self._summary = None
                revisions.append(summary.revise(EventState.ENDED, now_ns))
            elif summary.due(now_ns, SUMMARY_EVERY_NS):
                revisions.append(summary.revise(EventState.UPDATED, now_ns))
        return revisions

    def new_epoch(self) -> None:
        """Track ids start again."""
        self._admission.new_epoch()

    def close(self, state: EventState, now_ns: int) -> list[Revision]:
        """The last revisions of whatever is still open, the summary included."""
        left = [*self._open.values(), *([] if self._summary is None else [self._summary])]
        self._open, self._held, self._summary = {}, {}, None
        return [event.revise(state, now_ns) for event in left]

    def _point(self, happening: Happening, moment: Moment, now_ns: int) -> list[Revision]:
        cause = _cause(happening)
        verdict = self._admission.ask(cause, now_ns)
        if verdict is not Verdict.ADMITTED:
            return self._refuse(verdict, moment, now_ns)
        self._admission.over(cause, now_ns)
        return [Revision(self._new_id(), 1, EventState.ENDED, happening, Subject())]

    def _begin(self, happening: Happening, moment: Moment, now_ns: int) -> list[Revision]:
        verdict = self._admission.ask(_cause(happening), now_ns)
        if verdict is not Verdict.ADMITTED:
            self._held[happening.key] = happening, verdict
            return self._refuse(verdict, moment, now_ns)
        return [self._opened(happening, now_ns)]

    def _opened(self, happening: Happening, now_ns: int) -> Revision:
        event = _Open(self._new_id(), happening, now_ns, said_count=happening.count)
        self._open[happening.key] = event
        return Revision(event.id, 1, EventState.STARTED, happening, event.subject)

    def _update(self, happening: Happening, now_ns: int) -> list[Revision]:
        key = happening.key
        if key in self._held:
            self._held[key] = replace(happening, phase=Phase.OPENED), self._held[key][1]
        event = self._open.get(key)
        if event is None:
            return []
        event.happening = happening
        return [event.revise(EventState.UPDATED, now_ns)] if event.due(now_ns, UPDATE_EVERY_NS) else []

    def _finish(self, happening: Happening, now_ns: int) -> list[Revision]:
        self._held.pop(happening.key, None)
        event = self._open.pop(happening.key, None)
        if event is None:
            return []
        event.happening = happening
        self._admission.over(_cause(happening), now_ns)
        interrupted = happening.phase is Phase.INTERRUPTED
        return [event.revise(EventState.INTERRUPTED if interrupted else EventState.ENDED, now_ns)]

    def _refuse(self, verdict: Verdict, moment: Moment, now_ns: int) -> list[Revision]:
        self.suppressed[verdict] += 1
        if verdict is not Verdict.RATE:
            return []
        self._capped_ns = now_ns
        summary = self._summary
        if summary is not None:
            summary.happening = replace(summary.happening, count=(summary.happening.count or 0) + 1)
            return []
        first = Happening(
            Phase.OPENED, "rate_capped", moment, count=1, reason="the rate cap of this rule bites"
        )
        self._summary = summary = _Open(self._new_id(), first, now_ns, said_count=1)
        return [Revision(summary.id, 1, EventState.STARTED, first, summary.subject)]


def _cause(happening: Happening) -> Cause:
    return happening.key if happening.track is None else happening.track
