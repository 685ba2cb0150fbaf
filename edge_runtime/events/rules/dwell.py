"""Dwell: one track stays in the zone for a measured time."""

from collections.abc import Mapping, Sequence

from edge_runtime.config.rules import DwellRule
from edge_runtime.events.filters import ZoneWatch
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import MAX_TRACKS, lasted, to_ns
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment


class _Stay:
    """One track in the zone: since when, last believed inside, and whether the stay was reported."""

    __slots__ = ("entered", "inside", "last", "reported")

    def __init__(self, moment: Moment) -> None:
        self.entered = self.last = moment
        self.inside = True
        self.reported = False


class DwellMachine:
    """State of one dwell rule: the stays that are going on, in the order in which they began.

    A detection inside begins a stay and a detection completes it; a coasting track keeps a stay alive.

    Args:
        rule: the rule.
        labels: the model's label map.
    """

    def __init__(self, rule: DwellRule, labels: Sequence[str]) -> None:
        self._watch = ZoneWatch(rule, labels)
        self._seconds_ns, self._grace_ns = to_ns(rule.seconds), to_ns(rule.grace)
        self._stays: dict[int, _Stay] = {}

    def step(self, scene: Scene) -> list[Happening]:
        """Stays that have become long enough, and reported stays that are over."""
        moment = scene.moment
        found: list[Happening] = []
        for track in self._watch.inside(scene):
            stay = self._stays.get(track)
            if stay is None:
                stay = self._stays[track] = _Stay(moment)
            stay.last, stay.inside = moment, True
            if not stay.reported and lasted(stay.entered, moment, self._seconds_ns):
                stay.reported = True
                found.append(_say(Phase.OPENED, track, stay))
        for track, stay in self._stays.items():
            if stay.last is not moment:
                stay.inside = stay.inside and track in scene.coasting
                if stay.inside:
                    stay.last = moment
        return found + self._ended(moment)

    def _ended(self, moment: Moment) -> list[Happening]:
        over = [
            track
            for track, stay in self._stays.items()
            if stay.last is not moment and lasted(stay.last, moment, self._grace_ns)
        ]
        if len(self._stays) - len(over) > MAX_TRACKS:  # only a very long grace can get here
            rest = sorted(
                self._stays.keys() - set(over), key=lambda track: self._stays[track].last.observed_ns
            )
            over += rest[: len(rest) - MAX_TRACKS]
        return self._end(Phase.CLOSED, over)

    def _end(self, phase: Phase, tracks: Sequence[int]) -> list[Happening]:
        stays = [(track, self._stays.pop(track)) for track in tracks]
        return [_say(phase, track, stay) for track, stay in stays if stay.reported]

    def new_epoch(self) -> list[Happening]:
        """Whether the same object stays on cannot be known across an epoch: its stay is interrupted."""
        return self._end(Phase.INTERRUPTED, list(self._stays))

    def stop(self) -> list[Happening]:
        """Close the reported stays and forget all."""
        return self._end(Phase.CLOSED, list(self._stays))

    def tally(self) -> Mapping[str, int]:
        """How many reported stays are going on."""
        stays = list(self._stays.values())  # a copy: other threads read this
        return {"dwelling": sum(stay.reported for stay in stays)}


def _say(phase: Phase, track: int, stay: _Stay) -> Happening:
    lasted_ns = stay.last.observed_ns - stay.entered.observed_ns
    return Happening(phase, "dwell", stay.entered, track=track, key=track, duration_ns=lasted_ns)
