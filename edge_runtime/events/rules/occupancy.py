"""Occupancy: how many are in a zone, with hysteresis in number and in time."""

from collections.abc import Mapping, Sequence

from edge_runtime.config.rules import OccupancyRule
from edge_runtime.events.filters import Presence
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import Latch
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment


class OccupancyMachine:
    """State of one occupancy rule. It is about the zone, so it goes on across epochs.

    Args:
        rule: the rule.
        labels: the model's label map.
    """

    def __init__(self, rule: OccupancyRule, labels: Sequence[str]) -> None:
        self._rule = rule
        self._presence = Presence(rule, labels)
        self._latch = Latch(rule.hold, rule.hold)
        self._count = 0
        self._now: Moment | None = None

    def step(self, scene: Scene) -> list[Happening]:
        """The zone becomes occupied, its number changes, or it is clear again."""
        moment = self._now = scene.moment
        before, self._count = self._count, self._presence.update(scene)
        opened = self._latch.opened
        switched = self._latch.step(
            moment, on=self._count >= self._rule.at_least, off=self._count <= self._rule.clear_at
        )
        if opened is None:
            return [] if switched is None else [self._say(Phase.OPENED, switched, moment)]
        if switched is not None:
            return [self._say(Phase.CLOSED, opened, switched)]
        return [self._say(Phase.UPDATED, opened, moment)] if self._count != before else []

    def _say(self, phase: Phase, since: Moment, until: Moment) -> Happening:
        lasted_ns = until.observed_ns - since.observed_ns
        return Happening(phase, "occupancy", since, count=self._count, duration_ns=lasted_ns)

    def new_epoch(self) -> list[Happening]:
        """Ids start again; the zone stays as occupied as it was until frames say otherwise for the hold."""
        self._presence.forget()
        return []

    def stop(self) -> list[Happening]:
        """Close what is open and start from nothing."""
        opened, now = self._latch.opened, self._now
        closing = [] if opened is None or now is None else [self._say(Phase.CLOSED, opened, now)]
        self._latch = Latch(self._rule.hold, self._rule.hold)
        self._presence.forget()
        self._count = 0
        return closing

    def tally(self) -> Mapping[str, int]:
        """How many are in the zone now."""
        return {"occupants": self._count}
