"""Label map and eyesight of a running model, judged on the reference scenes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from edge_runtime.errors import DecodeError
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.qualification.problem import Problem
from edge_runtime.qualification.recognition import LEAST_SCORE, Sighting, blind, label_shift, look, mistaken
from edge_runtime.qualification.subject import Subject
from edge_runtime.sources.frame import Image

_ALL_ROWS: Final = 1e-4
"""Score; finished heads pad with rows of 0, and rows above it carry the ids of classes all over the map."""


def head_problems(
    subject: Subject, runs: Sequence[tuple[Mapping[str, Tensor], Letterbox]]
) -> Iterator[Problem]:
    """Outputs that the manifest's head cannot read, or that name classes outside the label map.

    Args:
        subject: the model.
        runs: outputs for a few pictures.
    """
    try:
        for outputs, geometry in runs:
            subject.read(outputs, geometry, _ALL_ROWS)
    except DecodeError as error:
        yield Problem("label-count" if "label" in str(error) else "head-differs", str(error))


def sight_problems(subject: Subject) -> Iterator[Problem]:
    """Drawn objects that were not recognised, or under another name."""
    labels = subject.manifest.labels

    def detect(image: Image) -> Detections:
        outputs, geometry = subject.show(image)
        return subject.read(outputs, geometry, LEAST_SCORE)

    sightings = look(detect, labels)
    shift = label_shift(sightings)
    if shift:
        yield Problem(
            "label-shift",
            f"the label map is shifted by {shift}: the model {mistaken(sightings, labels)} "
            "(first_class_id, or the order of the labels, is wrong)",
        )
    elif blind(sightings):
        yield _blind(sightings)


def _blind(sightings: Sequence[Sighting]) -> Problem:
    scores = ", ".join(f"{sighting.name} {sighting.score:.2f}" for sighting in sightings)
    several = sum(sighting.reliable for sighting in sightings) > 1
    return Problem(
        "does-not-see",
        f"drawn objects that healthy models recognise were not recognised ({scores}): "
        "the weights are damaged, or pictures are prepared in another way than they were trained with",
        "error" if several else "warning",
    )
