"""Does the model see what the reference scenes show, and does it call it by its name?"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from edge_runtime.perception.detections import Detections, FloatArray
from edge_runtime.qualification.figures import Box
from edge_runtime.qualification.scenes import DrawnObject, Scene, reference_scenes
from edge_runtime.sources.frame import Image

SEEN: Final = 0.3
"""A drawn object counts as seen at this score; see `scenes` for what healthy and ruined models reach."""

LEAST_SCORE: Final = 0.05
"""Detections below this are not looked at."""

_OVERLAP: Final = 0.3
_ALIASES: Final = {
    "pedestrian": "person",
    "people": "person",
    "human": "person",
    "human face": "face",
    "trafficlight": "traffic light",
    "stopsign": "stop sign",
}

Detect = Callable[[Image], Detections]


@dataclass(frozen=True, slots=True)
class Sighting:
    """How well one drawn kind of object was recognised, at its best over all its drawings.

    Attributes:
        name: of the drawn object.
        label: index of that name in the label map.
        reliable: healthy small detectors all recognise it.
        score: of the best detection with the right label at the right place; 0 without one.
        rival: label of the strongest other detection at the same place, or None.
        rival_score: its score.
    """

    name: str
    label: int
    reliable: bool
    score: float
    rival: int | None
    rival_score: float

    @property
    def seen(self) -> bool:
        """Whether the object was recognised."""
        return self.score >= SEEN


def known_objects(labels: Sequence[str]) -> dict[str, int]:
    """Names of drawn objects that a label map knows, with the label's index."""
    index: dict[str, int] = {}
    for place, label in enumerate(labels):
        name = " ".join(label.lower().replace("_", " ").replace("-", " ").split())
        index.setdefault(_ALIASES.get(name, name), place)
    drawn = {item.name for scene in reference_scenes() for item in scene.objects}
    return {name: place for name, place in index.items() if name in drawn}


def scenes_for(labels: Sequence[str]) -> list[Scene]:
    """The reference scenes that show something the labels name."""
    known = known_objects(labels)
    return [scene for scene in reference_scenes() if any(item.name in known for item in scene.objects)]


def look(detect: Detect, labels: Sequence[str]) -> list[Sighting]:
    """Show the reference scenes to a detector.

    Args:
        detect: with a threshold of at most `LEAST_SCORE`.
        labels: the model's label map.

    Returns:
        One sighting per drawn kind of object that the labels name; empty where they name none.
    """
    known = known_objects(labels)
    best: dict[str, Sighting] = {}
    for scene in scenes_for(labels):
        found = detect(scene.image)
        for item in scene.objects:
            if item.name in known:
                sighting = _sight(found, item, known[item.name])
                if item.name not in best or _rank(sighting) > _rank(best[item.name]):
                    best[item.name] = sighting
    return list(best.values())


def support(sightings: Iterable[Sighting]) -> float:
    """Sum of the right scores: which of several ways to feed a model it understands best."""
    return sum(sighting.score for sighting in sightings)


def blind(sightings: Sequence[Sighting]) -> bool:
    """Whether fewer than half of the reliable objects were recognised; False where none is known."""
    reliable = [sighting for sighting in sightings if sighting.reliable]
    return 2 * sum(sighting.seen for sighting in reliable) < len(reliable)


def label_shift(sightings: Sequence[Sighting]) -> int:
    """By how many places the label map is shifted, if at least two objects agree on it; otherwise 0."""
    offsets = [
        sighting.rival - sighting.label
        for sighting in sightings
        if not sighting.seen and sighting.rival is not None and sighting.rival_score >= SEEN
    ]
    agreed = [offset for offset in set(offsets) if offset and offsets.count(offset) >= 2]
    return agreed[0] if len(agreed) == 1 else 0


def mistaken(sightings: Sequence[Sighting], labels: Sequence[str]) -> str:
    """`takes a drawn clock for vase, person for bicycle`: what was seen under another name."""
    taken = ", ".join(
        f"{sighting.name} for {labels[sighting.rival]}"
        for sighting in sightings
        if not sighting.seen and sighting.rival is not None
    )
    return f"takes a drawn {taken}"


def _rank(sighting: Sighting) -> tuple[float, float]:
    return sighting.score, sighting.rival_score


def _sight(found: Detections, item: DrawnObject, label: int) -> Sighting:
    there = overlap(found.xyxy, item.xyxy) >= _OVERLAP
    right = found.score[there & (found.label == label)]
    others = there & (found.label != label)
    score = float(right.max()) if len(right) else 0.0
    if not others.any():
        return Sighting(item.name, label, item.reliable, score, None, 0.0)
    strongest = int(np.flatnonzero(others)[found.score[others].argmax()])
    rival, rival_score = int(found.label[strongest]), float(found.score[strongest])
    return Sighting(item.name, label, item.reliable, score, rival, rival_score)


def overlap(xyxy: FloatArray, box: Box) -> FloatArray:
    """Intersection over union of each of (N, 4) boxes with one box."""
    other = np.array(box, np.float32)
    sides = np.minimum(xyxy[:, 2:], other[2:]) - np.maximum(xyxy[:, :2], other[:2])
    shared = np.prod(np.clip(sides, 0, None), axis=1)
    area = np.prod(xyxy[:, 2:] - xyxy[:, :2], axis=1) + np.prod(other[2:] - other[:2])
    result: FloatArray = shared / np.maximum(area - shared, 1e-6)
    return result
