"""Lines and zones over a clip: what the rules say, and what the ground truth says without them.

`expected` derives the counts from boxes with identities alone. It shares no code with edge_runtime.events: plain
Python over one person after the other, with the meaning that config/rules.py gives to a line and a zone.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from edge_runtime.config.rules import LineRule, OccupancyRule, RuleConfig
from edge_runtime.events import EventDesk
from edge_runtime.perception.detections import Tracks
from edge_runtime.sources.frame import Frame
from tests.rigs.events import CONFIG, FakeClock
from tests.scoring.mot import Rows

Point = tuple[float, float]
Crossing = tuple[str, str]
"""Name of the line and direction."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Rules in pixels of a picture."""

    width: int
    height: int
    lines: tuple[LineRule, ...]
    zones: tuple[OccupancyRule, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened: crossings by line and direction, and for each zone the people in it frame by frame."""

    crossings: Counter[Crossing]
    occupants: dict[str, list[int]]

    def mean_occupancy(self) -> float:
        """People in a zone, averaged over frames and pooled over the zones."""
        return sum(sum(frames) / len(frames) for frames in self.occupants.values())


def load(path: Path) -> Scene:
    """Reads a committed scene; every rule is about pixels and the bottom centre of the boxes."""
    document = json.loads(path.read_text(encoding="utf-8"))
    rules: tuple[RuleConfig, ...] = TypeAdapter(tuple[RuleConfig, ...]).validate_python(document["rules"])
    assert all(rule.anchor == "bottom_center" for rule in rules)
    return Scene(
        document["width"],
        document["height"],
        tuple(rule for rule in rules if isinstance(rule, LineRule)),
        tuple(rule for rule in rules if isinstance(rule, OccupancyRule)),
    )


def watch(scene: Scene, tracks: Sequence[Tracks], interval_s: float) -> Counts:
    """Sends tracks through the rules engine: crossings are those of the events that it emits."""
    clock = FakeClock()
    desk = EventDesk("scene", (*scene.lines, *scene.zones), ("person",), config_digest=CONFIG, clock=clock)
    image = np.zeros((scene.height, scene.width, 3), np.uint8)
    begun_ns = clock.now_ns
    crossings: Counter[Crossing] = Counter()
    occupants: dict[str, list[int]] = {zone.name: [] for zone in scene.zones}
    for index, found in enumerate(tracks):
        frame = Frame(image, "scene", 0, index, clock.now_ns, clock.now_ns - begun_ns)
        for record in desk.observe(frame, found):
            if record.kind == "line":
                assert record.direction is not None
                crossings[record.rule, record.direction] += 1
        tallies = desk.tallies()
        for name, frames in occupants.items():
            frames.append(tallies[name]["occupants"])
        clock.pass_s(interval_s)
    return Counts(crossings, occupants)


def expected(scene: Scene, truth: Rows, frames: int, interval_s: float) -> Counts:
    """Counts of the ground truth."""
    crossings: Counter[Crossing] = Counter()
    occupants = {zone.name: [0] * frames for zone in scene.zones}
    for zone in scene.zones:
        assert zone.polygon is not None
        for frame, (x1, _, x2, y2) in zip(truth.frame.tolist(), truth.xyxy.tolist(), strict=True):
            occupants[zone.name][frame - 1] += inside(((x1 + x2) / 2, y2), zone.polygon)
    for line in scene.lines:
        for path in paths(truth).values():
            for direction in crossed(path, line, line.dead_band * scene.height, interval_s):
                crossings[line.name, direction] += 1
    return Counts(crossings, occupants)


def paths(truth: Rows) -> dict[int, list[Point]]:
    """Where each person stands, frame after frame; nobody may be missing in between."""
    walked: dict[int, list[Point]] = {}
    for identity in sorted(set(truth.identity.tolist())):
        rows = truth.select(truth.identity == identity)
        assert (np.diff(rows.frame) == 1).all()
        walked[identity] = [((x1 + x2) / 2, y2) for x1, _, x2, y2 in rows.xyxy.tolist()]
    return walked


def crossed(points: Sequence[Point], line: LineRule, dead_band: float, interval_s: float) -> list[str]:
    """The directions in which one person, seen in every frame, crosses a line.

    Cuts the walk into stretches on one side, where being within the dead band continues a stretch; keeps the
    stretches that last for the debounce; each change of side between two of them that passes between the
    line's ends is a crossing.
    """
    (ax, ay), (bx, by) = line.line
    length = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5
    right = [((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / length for x, y in points]
    along = [((bx - ax) * (x - ax) + (by - ay) * (y - ay)) / length for x, y in points]
    stretches: list[tuple[str, int, int]] = []
    for index, distance in enumerate(right):
        side = "right" if distance > dead_band else "left" if distance < -dead_band else ""
        if stretches and side in ("", stretches[-1][0]):
            stretches[-1] = (*stretches[-1][:2], index)
        elif side:
            stretches.append((side, index, index))
    lasting = [one for one in stretches if (one[2] - one[1]) * interval_s >= line.debounce - 1e-9]
    directions = []
    for before, after in pairwise(lasting):
        if before[0] == after[0]:
            continue
        over = max(i for i in range(1, after[1] + 1) if (right[i - 1] > 0) != (right[i] > 0))
        share = right[over - 1] / (right[over - 1] - right[over])
        if 0 <= along[over - 1] + share * (along[over] - along[over - 1]) <= length:
            directions.append("left_to_right" if after[0] == "right" else "right_to_left")
    return directions if line.direction == "both" else [one for one in directions if one == line.direction]


def inside(point: Point, polygon: Sequence[Point]) -> bool:
    """Whether a ray from the point to the right meets the polygon's edges an odd number of times."""
    x, y = point
    within = False
    for (x1, y1), (x2, y2) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            within = not within
    return within
