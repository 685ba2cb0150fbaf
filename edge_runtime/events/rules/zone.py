"""Zone: a track enters or leaves, and stays on the new side for the debounce.

Appearing inside counts as entering, for detectors often pick an object up only when it is already in the
zone; what is inside when observation begins was there before and has not entered. Vanishing inside is not
leaving: a track that nobody saw go out may be hidden behind a pillar.
"""

from collections.abc import Mapping, Sequence

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.rules import ZoneRule
from edge_runtime.events.filters import ZoneWatch
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import Settler, TrackMemory, lasted, to_ns
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment

ALREADY_THERE_NS = NS_PER_S
ALREADY_THERE_FRAMES = 3
"""First seen within this much time or this many frames of the start of observation: it was there before.

Trackers confirm a track with its second detection, which a camera with one frame in ten seconds has late.
"""


class _Visitor(Settler[bool]):
    __slots__ = ("appeared", "was_there")

    def __init__(self, inside: bool, moment: Moment, *, starting: bool) -> None:  # noqa: FBT001
        super().__init__(inside, moment)
        self.appeared = inside
        self.was_there = inside and starting


class ZoneMachine:
    """State of one zone rule: for every track the side on which it is settled.

    Args:
        rule: the rule.
        labels: the model's label map.
    """

    def __init__(self, rule: ZoneRule, labels: Sequence[str]) -> None:
        self._watch = ZoneWatch(rule, labels)
        self._debounce_ns = to_ns(rule.debounce)
        self._on = frozenset(rule.on)
        self._visitors: TrackMemory[_Visitor] = TrackMemory()
        self._began: Moment | None = None
        self._frames = 0
        self._tally = {"enter": 0, "leave": 0}

    def step(self, scene: Scene) -> list[Happening]:
        """Enterings and leavings that this frame confirms."""
        moment = scene.moment
        if self._began is None or self._began.run != moment.run:
            self._began, self._frames = moment, 0
        self._frames += 1
        starting = (
            self._frames <= ALREADY_THERE_FRAMES
            or moment.observed_ns - self._began.observed_ns <= ALREADY_THERE_NS
        )
        found: list[Happening] = []
        counts, inside = self._watch.look(scene)
        for track, within in zip(scene.where(counts), inside[counts].tolist(), strict=True):
            visitor = self._visitors.get(track)
            if visitor is None:
                visitor = self._visitors[track] = _Visitor(within, moment, starting=starting)
            else:
                visitor.take(within, moment)
            if visitor.side is not visitor.settled and lasted(visitor.since, moment, self._debounce_ns):
                change = self._settled(track, visitor)
                if change is not None:
                    found.append(change)
        self._visitors.sweep(moment)
        return found

    def _settled(self, track: int, visitor: _Visitor) -> Happening | None:
        before = visitor.settled
        visitor.accept()
        if before is None and (visitor.was_there or not visitor.side):
            return None
        direction = "enter" if visitor.side else "leave"
        if direction not in self._on:
            return None
        self._tally[direction] += 1
        return Happening(
            Phase.POINT,
            "zone",
            visitor.since,
            track=track,
            key=track,
            direction=direction,
            reason="first seen inside the zone" if before is None and visitor.appeared else None,
        )

    def new_epoch(self) -> list[Happening]:
        """Forget all tracks; nothing lasts here that could be interrupted."""
        self._visitors.clear()
        return []

    def stop(self) -> list[Happening]:
        """Forget all tracks and when observation began."""
        self._visitors.clear()
        self._began = None
        return []

    def tally(self) -> Mapping[str, int]:
        """Enterings and leavings so far."""
        return dict(self._tally)
