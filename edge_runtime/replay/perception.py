"""Recorded frames through the model: what it sees in them now, beside what was seen then."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_runtime.errors import BackendError, DecodeError
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.node.models import ReadyModel
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, Outcome, OutcomeJudge, Unseen
from edge_runtime.recording import OtherRecording
from edge_runtime.recording.head import CameraFacts
from edge_runtime.recording.pictures import read_picture
from edge_runtime.sources import Frame, Image

SAME_PX = 0.01
"""Boxes that lie no further apart are the same."""


@dataclass
class Agreement:
    """What was seen anew beside what was recorded.

    Attributes:
        looked: frames that the model looked at.
        differ: of them, those with another number of boxes, other labels, or a box further off than `SAME_PX`.
        furthest_px: the largest distance between two edges of the same box.
        without_picture: frames whose picture is not in the recording; the recorded boxes were taken.
    """

    looked: int = 0
    differ: int = 0
    furthest_px: float = 0.0
    without_picture: int = 0

    def note(self, before: Detections, now: Detections) -> None:
        """Compare one frame."""
        self.looked += 1
        if len(before) != len(now) or not np.array_equal(before.label, now.label):
            self.differ += 1
            return
        off = float(np.abs(before.xyxy - now.xyxy).max()) if len(now) else 0.0
        self.furthest_px = max(self.furthest_px, off)
        self.differ += off > SAME_PX

    def join(self, other: "Agreement") -> None:
        """Add that of another part."""
        self.looked += other.looked
        self.differ += other.differ
        self.furthest_px = max(self.furthest_px, other.furthest_px)
        self.without_picture += other.without_picture


class Perception:
    """Looks at recorded frames with the models of a configuration, one at a time.

    Args:
        part: folder with the pictures.
        cameras: what the head says of them.
        models: by their names in the configuration; loaded.

    Attributes:
        agreement: with what was recorded.
    """

    def __init__(
        self, part: Path, cameras: Mapping[str, CameraFacts], models: Mapping[str, ReadyModel]
    ) -> None:
        self.agreement = Agreement()
        self._part, self._cameras = part, cameras
        self._models = {
            name: tuple(_OneByOne(model) for model in (ready.model, *ready.variants))
            for name, ready in models.items()
        }
        self._judge = OutcomeJudge()

    def look(self, record: FlightRecord, recorded: Outcome) -> Outcome:
        """What comes of the frame; the recorded outcome where there is no picture, or nothing to be seen in it."""
        frame = recorded.frame
        if frame.dark or frame.frozen:
            return recorded
        name = record.fields.get("picture")
        image = None if name is None else read_picture(self._part, str(name))
        if image is None:
            self.agreement.without_picture += 1
            return recorded
        variants = self._models[self._cameras[frame.source].model]
        variant = recorded.variant if isinstance(recorded, Evaluated) else 0
        found = variants[min(variant, len(variants) - 1)].look(image)
        if not isinstance(found, Detections):
            reason, text = found
            return NotEvaluated(frame, reason, text, recorded.model, recorded.lineup)
        if isinstance(recorded, Evaluated):
            self.agreement.note(recorded.detections, found)
        return self._judge.outcome(
            _seen(frame, image), found, recorded.model, variant=variant, lineup=recorded.lineup
        )


def require_models(
    cameras: Mapping[str, CameraFacts], models: Mapping[str, ReadyModel], *, anyway: bool
) -> None:
    """Refuse models that are not those which looked when it was recorded.

    Raises:
        OtherRecording: one has another digest, and nobody wants it anyway.
    """
    for name, facts in cameras.items():
        ready = models.get(facts.model)
        digest = "none" if ready is None else ready.model.package.digest
        if ready is None or (digest != facts.sight.digests[0] and not anyway):
            raise OtherRecording(
                f"camera {name} was recorded with model {facts.sight.digests[0]}, and model {facts.model} of the "
                f"configuration is {digest}: name the configuration of the recording, or add --anyway"
            )


class _OneByOne:
    """One model for one frame at a time."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._tensor: Tensor = model.preprocessor.allocate(1)

    def look(self, image: Image) -> Detections | tuple[Unseen, str]:
        """What is in a picture, or why nobody knows."""
        model = self._model
        geometry = model.preprocessor.fill(image, self._tensor, 0, None)
        try:
            return model.postprocessor(model.backend.infer(model.feeds(self._tensor, 1)), 0, geometry)
        except DecodeError as error:
            return Unseen.LAYOUT, str(error)
        except BackendError as error:
            return Unseen.ERROR, str(error)


def _seen(frame: Frame, image: Image) -> Frame:
    return Frame(image, frame.source, frame.epoch, frame.sequence, frame.capture_ns, frame.media_ns)
