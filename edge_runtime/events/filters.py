"""Which tracks of a frame count for a rule, and whether they are inside its zone."""

from collections.abc import Iterator, Sequence

import numpy as np

from edge_runtime.config.rules import AbsenceRule, CountRule, DwellRule, OccupancyRule, RuleConfig, ZoneRule
from edge_runtime.errors import ConfigError
from edge_runtime.events.geometry import BoolArray, Region, lay_out
from edge_runtime.events.scene import Scene

ZonedRule = ZoneRule | OccupancyRule | DwellRule | AbsenceRule | CountRule


class TrackFilter:
    """The label, confidence and size conditions of one rule.

    Args:
        rule: the rule.
        labels: the model's label map; a rule's label that is not in it would silently never match.

    Raises:
        ConfigError: the rule names a label that the model does not have.
    """

    def __init__(self, rule: RuleConfig, labels: Sequence[str]) -> None:
        unknown = sorted(set(rule.labels) - set(labels))
        if unknown:
            some = ", ".join(sorted(set(labels))[:12]) + (", …" if len(set(labels)) > 12 else "")
            raise ConfigError(
                f"rule {rule.name}: the model has no label {', '.join(map(repr, unknown))}; it has {some}"
            )
        self._allowed: BoolArray | None = None
        if rule.labels:
            # A place more at either end: an index outside the map is no label, so it is none of these.
            self._allowed = np.array([False, *(label in rule.labels for label in labels), False])
        self._min_confidence = rule.min_confidence
        self._height = (rule.min_height, rule.max_height)
        self._area = (rule.min_area, rule.max_area)

    def counts(self, scene: Scene) -> BoolArray:
        """(N,) bool: tracks that were detected in this very frame and meet every condition."""
        mask = scene.seen_mask
        if self._allowed is not None:
            mask = mask & self._allowed.take(scene.label + 1, mode="clip")
        if self._min_confidence > 0:
            mask = mask & (scene.score >= self._min_confidence)
        for (low, high), index in ((self._height, 0), (self._area, 1)):
            if low > 0 or high < 1:
                fraction = scene.fractions()[index]
                mask = mask & (fraction >= low) & (fraction <= high)
        return mask


class ZoneWatch:
    """A rule's filter together with its polygon, which is laid out anew when the frame's size changes."""

    def __init__(self, rule: ZonedRule, labels: Sequence[str]) -> None:
        self._rule = rule
        self._filter = TrackFilter(rule, labels)
        self._region: Region | None = None
        self._size = (0, 0)

    def look(self, scene: Scene) -> tuple[BoolArray, BoolArray]:
        """For each track of the scene, (N,) each: whether it counts, and whether its anchor is inside."""
        counts = self._filter.counts(scene)
        polygon = self._rule.polygon
        if polygon is None or not scene.ids:
            return counts, np.ones(len(scene.ids), np.bool_)
        if self._region is None or self._size != (scene.width, scene.height):
            self._size = (scene.width, scene.height)
            self._region = lay_out(polygon, self._rule.units, *self._size)
        return counts, scene.inside(self._region, self._rule.anchor)

    def inside(self, scene: Scene) -> Iterator[int]:
        """The tracks that count and are inside, in the order of the scene."""
        counts, inside = self.look(scene)
        return scene.where(counts & inside)


class Presence:
    """Who is in a zone now.

    A track joins when it is seen inside and counts; it stays while it is only coasting, wherever it is
    predicted to be; it goes when it is seen outside, no longer counts, or the tracker gives it up.
    """

    def __init__(self, rule: ZonedRule, labels: Sequence[str]) -> None:
        self._watch = ZoneWatch(rule, labels)
        self._members: set[int] = set()

    def update(self, scene: Scene) -> int:
        """How many are in the zone in this frame."""
        kept = self._members & scene.coasting
        self._members = kept.union(self._watch.inside(scene))
        return len(self._members)

    def forget(self) -> None:
        """Nobody is known any more: the track ids of a new epoch mean other objects."""
        self._members = set()
