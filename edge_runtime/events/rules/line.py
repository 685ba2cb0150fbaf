"""Line: a track crosses from one side to the other, with a dead band and a debounce on both sides.

Without both, a person who lingers on a line was counted 66 times where 34 crossed. The side is that of the
infinite line; whether a crossing belongs to the drawn segment is decided by the place at which the straight
path between two sightings passed over the line.
"""

from collections.abc import Mapping, Sequence

from edge_runtime.config.rules import LineRule
from edge_runtime.events.filters import TrackFilter
from edge_runtime.events.geometry import Segment
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import Settler, TrackMemory, lasted, to_ns
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment
from edge_runtime.geometry import to_pixels

LEFT, BETWEEN, RIGHT = -1, 0, 1


class _Walker(Settler[int]):
    """One track: its settled side, its last sighting, and where it passed over the line to its present side."""

    __slots__ = ("_passed", "along", "crossing", "distance")

    def __init__(self, side: int, moment: Moment, distance: float, along: float) -> None:
        super().__init__(side, moment)
        self.distance, self.along = distance, along
        self._passed = self.crossing = along

    def walk(self, side: int, moment: Moment, distance: float, along: float) -> None:
        """The next sighting; between the edges of the dead band the side does not change."""
        if (self.distance > 0) != (distance > 0):
            share = self.distance / (self.distance - distance)
            self._passed = self.along + share * (along - self.along)
        self.distance, self.along = distance, along
        if side not in (BETWEEN, self.side):
            self.crossing = self._passed
            self.take(side, moment)
        else:
            self.last = moment


class LineMachine:
    """State of one line rule.

    Args:
        rule: the rule.
        labels: the model's label map.
    """

    def __init__(self, rule: LineRule, labels: Sequence[str]) -> None:
        self._rule = rule
        self._filter = TrackFilter(rule, labels)
        self._debounce_ns = to_ns(rule.debounce)
        self._walkers: TrackMemory[_Walker] = TrackMemory()
        self._segment: Segment | None = None
        self._size = (0, 0)
        self._tally = {"left_to_right": 0, "right_to_left": 0}

    def step(self, scene: Scene) -> list[Happening]:
        """Crossings that this frame confirms."""
        found: list[Happening] = []
        if scene.ids:
            moment, segment = scene.moment, self._laid_out(scene)
            distances, alongs = segment.locate(scene.anchor(self._rule.anchor))
            band = self._rule.dead_band * scene.height
            counts = self._filter.counts(scene)
            for track, distance, along in zip(
                scene.where(counts), distances[counts].tolist(), alongs[counts].tolist(), strict=True
            ):
                side = RIGHT if distance > band else LEFT if distance < -band else BETWEEN
                walker = self._walkers.get(track)
                if walker is None:
                    walker = self._walkers[track] = _Walker(side, moment, distance, along)
                else:
                    walker.walk(side, moment, distance, along)
                if walker.side not in (BETWEEN, walker.settled) and lasted(
                    walker.since, moment, self._debounce_ns
                ):
                    crossing = self._settled(track, walker, segment)
                    if crossing is not None:
                        found.append(crossing)
        self._walkers.sweep(scene.moment)
        return found

    def _laid_out(self, scene: Scene) -> Segment:
        if self._segment is None or self._size != (scene.width, scene.height):
            self._size = (scene.width, scene.height)
            self._segment = Segment(to_pixels(self._rule.line, self._rule.units, *self._size))
        return self._segment

    def _settled(self, track: int, walker: _Walker, segment: Segment) -> Happening | None:
        before = walker.settled
        walker.accept()
        if before is None or not segment.spans(walker.crossing):
            return None
        direction = "left_to_right" if walker.side == RIGHT else "right_to_left"
        if self._rule.direction not in ("both", direction):
            return None
        self._tally[direction] += 1
        return Happening(Phase.POINT, "line", walker.since, track=track, key=track, direction=direction)

    def new_epoch(self) -> list[Happening]:
        """Forget all tracks: a new id on the other side has crossed nothing."""
        self._walkers.clear()
        return []

    def stop(self) -> list[Happening]:
        """Forget all tracks."""
        return self.new_epoch()

    def tally(self) -> Mapping[str, int]:
        """Crossings so far in each direction that the rule counts."""
        return dict(self._tally)
