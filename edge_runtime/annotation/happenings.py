"""Which rules and tracks have something going on, so that zones light up and boxes stand out."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from edge_runtime.protocol import EventRecord, EventState, Severity

_Key = TypeVar("_Key", str, int)

_OPEN = frozenset({EventState.STARTED, EventState.UPDATED})


@dataclass(frozen=True, slots=True)
class _Shown:
    event: EventRecord
    since_ns: int


class Happenings:
    """Open events by rule and track, and the latest ones for a while after they were given.

    A happening is open from `started` to `ended` or `interrupted`; one that is a moment only (a crossing, a
    step over a zone's edge) is shown for `linger_s` of the source's own time and then forgotten.

    Args:
        momentary: names of the rules whose events are moments and never end by themselves.
        linger_s: how long a moment, and the line of text about any event, stays.
        lines: how many lines of text at most.
    """

    def __init__(self, momentary: Iterable[str], linger_s: float, lines: int = 3) -> None:
        self._momentary = frozenset(momentary)
        self._linger_ns = int(linger_s * 1e9)
        self._open: dict[str, EventRecord] = {}
        self._latest: deque[_Shown] = deque(maxlen=max(lines, 1) * 4)
        self._lines = lines

    def add(self, events: Iterable[EventRecord], media_ns: int) -> None:
        """Takes in the events of one frame; `media_ns` is that frame's time."""
        for event in events:
            if event.rule not in self._momentary:
                if event.state in _OPEN:
                    self._open[event.id] = event
                else:
                    self._open.pop(event.id, None)
            if event.state is not EventState.UPDATED:
                self._latest.append(_Shown(event, media_ns))

    def restart(self) -> None:
        """A new epoch: its clock starts again, so what lingered is gone; what is open stays open."""
        self._latest.clear()

    def recent(self, media_ns: int) -> list[EventRecord]:
        """Events to write about, newest first."""
        fresh = [shown.event for shown in self._latest if 0 <= media_ns - shown.since_ns <= self._linger_ns]
        return fresh[::-1][: self._lines]

    def severity_by_rule(self, media_ns: int) -> dict[str, Severity]:
        """The gravest severity of what is going on, for each rule with something going on."""
        return _gravest((event.rule, event.severity) for event in self._going_on(media_ns))

    def severity_by_track(self, media_ns: int) -> dict[int, Severity]:
        """The same for each track that an event names."""
        return _gravest(
            (event.track, event.severity) for event in self._going_on(media_ns) if event.track is not None
        )

    def _going_on(self, media_ns: int) -> list[EventRecord]:
        moments = [event for event in self.recent(media_ns) if event.rule in self._momentary]
        return [*self._open.values(), *moments]


def _gravest(pairs: Iterable[tuple[_Key, Severity]]) -> dict[_Key, Severity]:
    found: dict[_Key, Severity] = {}
    for key, severity in pairs:
        if key not in found or severity.rank > found[key].rank:
            found[key] = severity
    return found
