"""The cameras' part of a recording through tracker and rules: the runtime's desks on the recording's clock."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from pydantic import ValidationError

from edge_runtime.config.node import NodeConfig
from edge_runtime.events import EventDesk
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.node.camera import CameraDesk, Sight
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, Outcome, StageTimes, Unseen
from edge_runtime.protocol import EventRecord, uuid7
from edge_runtime.recording import RecordingError, SightFacts
from edge_runtime.recording.boxes import detections_of
from edge_runtime.recording.head import CameraFacts
from edge_runtime.replay.clock import ReplayClock
from edge_runtime.sources import Frame, Image, SourceState, SourceStatus

_BITS = 74
_NO_PIXEL = np.zeros((1, 1, 1), np.uint8)


class Looks(Protocol):
    """Looks at a recorded frame anew; `edge_runtime.replay.perception.Perception` is one."""

    def look(self, record: FlightRecord, recorded: Outcome) -> Outcome:
        """What comes of the frame; the recorded outcome where it cannot be looked at."""
        ...


@dataclass
class CamerasReplayed:
    """What came of a part.

    Attributes:
        events: in their order.
        recorded: events that the recording holds, in theirs.
        frames: that were looked at, by camera.
        refused: records that are not what they should be.
        last_ns: CLOCK_MONOTONIC that the last act of a desk was about: where a recording was cut off, the events
            that the device made of it may not be in it.
    """

    events: list[EventRecord] = field(default_factory=list)
    recorded: list[EventRecord] = field(default_factory=list)
    frames: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    last_ns: int | None = None


def replay_cameras(
    records: Iterable[FlightRecord],
    cameras: Mapping[str, CameraFacts],
    config: NodeConfig,
    digest: str,
    looks: Looks | None = None,
) -> CamerasReplayed:
    """Replay one part.

    Args:
        records: of it, in their order.
        cameras: what its head says of them.
        config: rules and tracking.
        digest: of the configuration; events carry it.
        looks: looks at the frames anew; the recorded detections are taken without it.

    Raises:
        RecordingError: the recording cannot be replayed.
        ConfigError: the rules cannot be used with the recorded model's labels.
    """
    replay = _Replay(cameras, config, digest, looks)
    for record in records:
        replay.step(record)
    return replay.result


@dataclass
class _Runner:
    """A camera as the recording says that it stood."""

    live: bool
    now: SourceStatus

    def status(self) -> SourceStatus:
        return self.now


class _Replay:
    def __init__(
        self,
        cameras: Mapping[str, CameraFacts],
        config: NodeConfig,
        digest: str,
        looks: Looks | None,
    ) -> None:
        self.result = CamerasReplayed()
        self._clock, self._config, self._digest, self._looks = ReplayClock(), config, digest, looks
        self._cameras = cameras
        self._desks: dict[str, CameraDesk] = {}
        self._runners = {name: _Runner(facts.live, _status({})) for name, facts in cameras.items()}
        self._lineups = {name: {0} for name in cameras}
        missing = [name for name in cameras if name not in config.cameras]
        if missing:
            raise RecordingError(
                f"camera {missing[0]} is in the recording, and the configuration has none of that name"
            )

    def step(self, record: FlightRecord) -> None:
        """One record; the clock stands at it."""
        self._clock.stand_at(record)
        try:
            act = self._act(record)
        except (KeyError, TypeError, ValueError, ValidationError):
            self.result.refused += 1  # of a damaged recording, or of a newer minor version of the format
            return
        if act is not None:
            about_ns = record.fields.get("capture_ns", record.at_ns)
            self.result.last_ns = about_ns if isinstance(about_ns, int) else record.at_ns
            self.result.events += act()

    def _act(self, record: FlightRecord) -> Callable[[], list[EventRecord]] | None:
        """What a record makes a desk do; None where it is about none."""
        fields = record.fields
        if record.kind == "event":
            self.result.recorded.append(EventRecord.model_validate(fields["event"]))
            return None
        if record.kind not in ("frame", "source", "lineup", "finish"):
            return None
        desk = self._desk(fields["camera"])
        if record.kind == "frame":
            return partial(self._frame, desk, record, outcome_of(record))
        if record.kind == "source":
            self._runners[desk.name].now = _status(fields)
            return desk.tick
        if record.kind == "lineup":
            number = int(fields["lineup"])
            desk.expect(number, _sight(SightFacts.model_validate(fields["sight"])))
            self._lineups[desk.name].add(number)
            return None
        return partial(desk.finish, interrupted=bool(fields["interrupted"]))

    def _frame(self, desk: CameraDesk, record: FlightRecord, outcome: Outcome) -> list[EventRecord]:
        if outcome.lineup not in self._lineups[desk.name]:
            raise RecordingError(
                "the beginning of this recording was dropped, and with it which model looked: "
                "record anew, with more bytes"
            )
        if self._looks is not None:
            outcome = self._looks.look(record, outcome)
        self.result.frames[desk.name] = self.result.frames.get(desk.name, 0) + 1
        return desk.take(outcome)

    def _desk(self, name: str) -> CameraDesk:
        """The desk of a camera, made when it is first needed: its checks ask the clock for the boot's id."""
        found = self._desks.get(name)
        if found is None:
            found = self._desks[name] = self._made(name)
        return found

    def _made(self, name: str) -> CameraDesk:
        camera, facts = self._config.cameras[name], self._cameras[name]
        sight = _sight(facts.sight)
        ids = _ids(name, self._clock)
        events = EventDesk(
            name,
            camera.rules,
            sight.labels[0],
            data_class=camera.data_class,
            model_digest=sight.digests[0],
            config_digest=self._digest,
            max_bytes=self._config.events.max_bytes,
            clock=self._clock,
            new_id=lambda: next(ids),
            names=self._config.events.labels,
        )
        return CameraDesk(
            name,
            camera,
            self._runners[name],
            events,
            sight=sight,
            sinks=(),
            observer=None,
            times=StageTimes(),
            clock=self._clock,
        )


def outcome_of(record: FlightRecord) -> Outcome:
    """A recorded frame's outcome; its picture is black.

    Raises:
        KeyError, TypeError, ValueError: the record is none of a frame.
    """
    fields = record.fields
    width, height = fields["size"]
    frame = Frame(
        image=_black(int(width), int(height)),
        source=str(fields["camera"]),
        epoch=int(fields["epoch"]),
        sequence=int(fields["sequence"]),
        capture_ns=int(fields["capture_ns"]),
        media_ns=int(fields["media_ns"]),
        dark=bool(fields.get("dark", False)),
        frozen=bool(fields.get("frozen", False)),
    )
    model, lineup = str(fields["model"]), int(fields.get("lineup", 0))
    if "unseen" in fields:
        return NotEvaluated(frame, Unseen(fields["unseen"]), str(fields["text"]), model, lineup)
    detections = detections_of(fields["boxes"], int(fields.get("nonfinite", 0)))
    return Evaluated(frame, detections, model, int(fields.get("variant", 0)), lineup)


def _black(width: int, height: int) -> Image:
    """A frame of a size that takes one byte."""
    if width < 1 or height < 1:
        raise ValueError("a frame without a size")
    return np.broadcast_to(_NO_PIXEL, (height, width, 3))


def _sight(facts: SightFacts) -> Sight:
    return Sight(facts.score, facts.digests, facts.labels, facts.tracks_go_on)


def _status(fields: Mapping[str, Any]) -> SourceStatus:
    return SourceStatus(
        state=SourceState(fields.get("state", SourceState.STARTING.value)),
        epoch=0,
        sequence=0,
        reconnects=int(fields.get("reconnects", 0)),
        attempts=0,
        decoded=int(fields.get("decoded", 0)),
        damaged=int(fields.get("damaged", 0)),
        drops=dict(fields.get("drops", {})),
        last_capture_ns=None,
        error=fields.get("error"),
        dark=False,
        frozen=False,
        abandoned=False,
        stream=None,
    )


def _ids(camera: str, clock: ReplayClock) -> Iterator[str]:
    """Ids of a camera's events, the same in each replay: of time, camera, and how many there were before."""
    number = 0
    while True:
        noise = int.from_bytes(hashlib.sha256(f"{camera}\n{number}".encode()).digest()[:10], "big")
        number += 1
        yield uuid7(clock.wall().unix_ns, noise >> (80 - _BITS))
