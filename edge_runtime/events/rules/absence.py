"""Absence: nothing that counts is in the zone for a time.

The clock of rules stands still while the camera is dark, frozen or silent, so a camera that sees nothing
because it cannot see never reports an absence.
"""

from collections.abc import Mapping, Sequence

from edge_runtime.config.rules import AbsenceRule
from edge_runtime.events.filters import Presence
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import Latch
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment


class AbsenceMachine:
    """State of one absence rule. It is about the zone, so it goes on across epochs.

    Args:
        rule: the rule.
        labels: the model's label map.
    """

    def __init__(self, rule: AbsenceRule, labels: Sequence[str]) -> None:
        self._rule = rule
        self._presence = Presence(rule, labels)
        self._latch = Latch(rule.seconds, rule.grace)
        self._now: Moment | None = None

    def step(self, scene: Scene) -> list[Happening]:
        """An absence begins or is over."""
        moment = self._now = scene.moment
        present = self._presence.update(scene)
        opened = self._latch.opened
        switched = self._latch.step(moment, on=present == 0, off=present > 0)
        if switched is None:
            return []
        if opened is None:
            return [self._say(Phase.OPENED, switched, moment)]
        return [self._say(Phase.CLOSED, opened, switched)]

    def _say(self, phase: Phase, since: Moment, until: Moment) -> Happening:
        return Happening(phase, "absence", since, duration_ns=until.observed_ns - since.observed_ns)

    def new_epoch(self) -> list[Happening]:
        """Ids start again; the timer goes on from where it stood."""
        self._presence.forget()
        return []

    def stop(self) -> list[Happening]:
        """Close what is open and start from nothing."""
        opened, now = self._latch.opened, self._now
        closing = [] if opened is None or now is None else [self._say(Phase.CLOSED, opened, now)]
        self._latch = Latch(self._rule.seconds, self._rule.grace)
        self._presence.forget()
        return closing

    def tally(self) -> Mapping[str, int]:
        """Whether an absence is on."""
        return {"absent": int(self._latch.opened is not None)}
