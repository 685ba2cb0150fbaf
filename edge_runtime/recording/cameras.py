"""What is recorded of the cameras' process: each frame's outcome, silences, drops, models, and the events."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from edge_runtime.clock import NS_PER_S
from edge_runtime.perception.pipeline.outcome import Evaluated, Outcome
from edge_runtime.protocol import EventRecord
from edge_runtime.recording.boxes import rows_of
from edge_runtime.recording.head import CameraFacts, SightFacts
from edge_runtime.recording.writer import RecordingWriter
from edge_runtime.sources import SourceState, SourceStatus

_RUNS = (SourceState.RUNNING, SourceState.STARTING, SourceState.ENDED)
_COUNTS_NS = NS_PER_S
"""Counts of a camera that runs are written down so often, where they have changed."""


class SightLike(Protocol):
    """What a desk knows of the models that look; `edge_runtime.node.camera.Sight` is one."""

    @property
    def score(self) -> float:
        """At which detections count."""
        ...

    @property
    def digests(self) -> tuple[str, ...]:
        """Of the packages, by variant."""
        ...

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """By variant."""
        ...

    @property
    def tracks_go_on(self) -> bool:
        """Whether tracks of the lineup before go on."""
        ...


def sight_facts(sight: SightLike) -> SightFacts:
    """The same as a recording has it."""
    return SightFacts(
        score=sight.score, digests=sight.digests, labels=sight.labels, tracks_go_on=sight.tracks_go_on
    )


class CameraRecorder:
    """Looks on at the desks of cameras, and is a sink of their events. Changes nothing, and never raises.

    Args:
        writer: takes the records.
        cameras: what the head says of them.
    """

    def __init__(self, writer: RecordingWriter, cameras: Mapping[str, CameraFacts]) -> None:
        self._writer, self._cameras = writer, cameras
        self._told: dict[str, tuple[SourceStatus, int]] = {}
        self._since: set[str] = set()

    def without_pictures(self) -> list[str]:
        """Why frames of cameras are not recorded although they were asked for, a sentence each."""
        return [facts.without for facts in self._cameras.values() if facts.without]

    def outcome(self, camera: str, outcome: Outcome) -> None:
        """A frame's outcome is about to be looked at."""
        facts = self._cameras[camera]
        self._since.add(camera)
        self._writer.put(
            "frame",
            partial(frame_fields, camera, outcome),
            picture=outcome.frame.image if facts.pictures else None,
            waits=not facts.live,
        )

    def looked(self, camera: str, status: SourceStatus, now_ns: int) -> None:
        """The desk is about to look whether its camera has fallen silent."""
        if self._says_nothing_new(camera, status, now_ns):
            return
        self._told[camera] = status, now_ns
        self._since.discard(camera)
        self._writer.put("source", partial(source_fields, camera, status), at_ns=now_ns)

    def _says_nothing_new(self, camera: str, status: SourceStatus, now_ns: int) -> bool:
        if camera not in self._told:
            return False
        before, then_ns = self._told[camera]
        if (before.state, before.error) != (status.state, status.error):
            return False
        if status.state not in _RUNS:  # a silence means something again after a frame that came in between
            return camera not in self._since
        return before.drops == status.drops or now_ns - then_ns < _COUNTS_NS

    def finished(self, camera: str, *, interrupted: bool) -> None:
        """What is open is about to be ended."""
        self._writer.put("finish", lambda: {"camera": camera, "interrupted": interrupted})

    def lineup(self, camera: str, number: int, sight: SightLike) -> None:
        """Outcomes of other models will come."""
        facts = sight_facts(sight)
        self._writer.put(
            "lineup", lambda: {"camera": camera, "lineup": number, "sight": facts.model_dump(mode="json")}
        )

    def reconfigured(self) -> None:
        """Other rules hold from now on: what follows is another recording's."""
        self._writer.end("exchanged", "another configuration was put in use")

    def write(self, event: EventRecord) -> bool:
        """Keep an event, as what replaying is compared with."""
        self._writer.put("event", lambda: {"event": event.model_dump(mode="json", exclude_none=True)})
        return True


def frame_fields(camera: str, outcome: Outcome) -> dict[str, Any]:
    """A frame's outcome as a record has it; what is as usual is left out."""
    frame = outcome.frame
    found: dict[str, Any] = {
        "camera": camera,
        "epoch": frame.epoch,
        "sequence": frame.sequence,
        "capture_ns": frame.capture_ns,
        "media_ns": frame.media_ns,
        "size": [frame.width, frame.height],
        "model": outcome.model,
    }
    flags = {"dark": frame.dark, "frozen": frame.frozen, "lineup": outcome.lineup}
    if isinstance(outcome, Evaluated):
        flags |= {"variant": outcome.variant, "nonfinite": outcome.detections.nonfinite}
        found["boxes"] = rows_of(outcome.detections)
    else:
        found |= {"unseen": outcome.reason.value, "text": outcome.text}
    return found | {name: value for name, value in flags.items() if value}


def source_fields(camera: str, status: SourceStatus) -> dict[str, Any]:
    """How a camera stands."""
    return {
        "camera": camera,
        "state": status.state.value,
        "error": status.error,
        "decoded": status.decoded,
        "reconnects": status.reconnects,
        "damaged": status.damaged,
        "drops": dict(status.drops),
    }
