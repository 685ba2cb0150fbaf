"""Count: how many different tracks were in the zone within a window of time."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from edge_runtime.config.rules import CountRule
from edge_runtime.events.filters import ZoneWatch
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import to_ns
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment

MAX_COUNTED = 65_536
"""Most tracks remembered within one window; beyond it the number stands still instead of memory growing."""


class CountMachine:
    """State of one count rule: when each track was last seen in the zone, oldest first.

    Args:
        rule: the rule.
        labels: the model's label map.
    """

    def __init__(self, rule: CountRule, labels: Sequence[str]) -> None:
        self._watch = ZoneWatch(rule, labels)
        self._at_least = rule.at_least
        self._window_ns = to_ns(rule.window)
        self._limit = max(MAX_COUNTED, rule.at_least)
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._opened: Moment | None = None
        self._now: Moment | None = None

    def step(self, scene: Scene) -> list[Happening]:
        """The number reaches `at_least`, changes, or falls below it again."""
        moment = self._now = scene.moment
        before = len(self._seen)
        for track in self._watch.inside(scene):
            self._seen[track] = moment.observed_ns
            self._seen.move_to_end(track)
        oldest = moment.observed_ns - self._window_ns
        while self._seen and next(iter(self._seen.values())) < oldest:
            self._seen.popitem(last=False)
        while len(self._seen) > self._limit:
            self._seen.popitem(last=False)
        enough = len(self._seen) >= self._at_least
        if self._opened is None:
            if not enough:
                return []
            self._opened = moment
            return [self._say(Phase.OPENED, moment, moment)]
        opened = self._opened
        if not enough:
            self._opened = None
            return [self._say(Phase.CLOSED, opened, moment)]
        return [self._say(Phase.UPDATED, opened, moment)] if len(self._seen) != before else []

    def _say(self, phase: Phase, since: Moment, until: Moment) -> Happening:
        lasted_ns = until.observed_ns - since.observed_ns
        return Happening(phase, "count", since, count=len(self._seen), duration_ns=lasted_ns)

    def new_epoch(self) -> list[Happening]:
        """Ids start again, so the same object would count twice: begin the window anew."""
        return self._end(Phase.INTERRUPTED)

    def stop(self) -> list[Happening]:
        """Close what is open and empty the window."""
        return self._end(Phase.CLOSED)

    def _end(self, phase: Phase) -> list[Happening]:
        opened, now = self._opened, self._now
        ending = [] if opened is None or now is None else [self._say(phase, opened, now)]
        self._opened = None
        self._seen.clear()
        return ending

    def tally(self) -> Mapping[str, int]:
        """How many different tracks the window holds."""
        return {"distinct": len(self._seen)}
