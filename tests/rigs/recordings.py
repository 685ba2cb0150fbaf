"""A camera in the field, recorded: people who walk, vanish and come back, in numbers; real desks, real files."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from edge_runtime.clock import NS_PER_S
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.events import EventDesk
from edge_runtime.node.camera import CameraDesk, Sight
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, Outcome, StageTimes, Unseen
from edge_runtime.protocol import DataClass, EventRecord
from edge_runtime.recording import (
    CameraFacts,
    CameraRecorder,
    Ending,
    Head,
    RecordingWriter,
    Stream,
    WhenFull,
    sight_facts,
)
from edge_runtime.recording.configuration import facts_of
from edge_runtime.recording.folder import MIB
from edge_runtime.sources import Frame, SourceState, SourceStatus
from tests.rigs.events import FakeClock

WIDTH, HEIGHT = 640, 360
FPS = 10
LABELS = ("person", "car")
MODEL, OTHER_MODEL = "sha256:" + "a" * 64, "sha256:" + "b" * 64
SIGHT = Sight(0.5, (MODEL,), (LABELS,))
CAMERA = "yard"

RULES: list[dict[str, Any]] = [
    {"kind": "line", "name": "gate", "line": [[0.5, 1.0], [0.5, 0.0]], "debounce": 0.2},
    {
        "kind": "zone",
        "name": "bay",
        "polygon": [[0.6, 0], [1, 0], [1, 1], [0.6, 1]],
        "on": ["enter", "leave"],
    },
    {"kind": "occupancy", "name": "queue", "at_least": 2, "clear_at": 1, "hold": 0.3},
    {"kind": "dwell", "name": "waiting", "seconds": 4, "grace": 1},
    {"kind": "absence", "name": "nobody", "seconds": 0.6, "grace": 0.2, "evidence": True},
    {"kind": "count", "name": "busy", "at_least": 3, "window": 20, "cooldown": 5},
]


def write_config(folder: Path, rules: Sequence[Mapping[str, Any]] = RULES, **more: Any) -> Path:
    """A configuration whose camera has a password and whose model nobody opens."""
    camera = {
        "source": {"kind": "rtsp", "url": "rtsp://user:hunter2@camera.invalid/stream"},
        "model": "m",
        "data_class": "internal",
        "rules": list(rules),
    }
    document = {"version": 1, "models": {"m": {"package": "absent"}}, "cameras": {CAMERA: camera}}
    document |= {"evidence": {"directory": "crops"}, **more}
    path = folder / "site.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def status(state: SourceState = SourceState.RUNNING, error: str | None = None, **drops: int) -> SourceStatus:
    """What a source says of itself."""
    return SourceStatus(state, 0, 0, 0, 1, 7, 0, drops, None, error, False, False, False, None)


@dataclass
class Runner:
    """A camera that says what it is told."""

    live: bool = True
    now: SourceStatus = field(default_factory=status)

    def status(self) -> SourceStatus:
        return self.now


def walking(sequence: int, *, noise: np.random.Generator) -> Detections:
    """Three people who walk to and fro, at their own speeds; one is missed now and then."""
    rows = []
    for person in range(3):
        speed, phase = 0.05 + 0.03 * person, 0.2 * person
        at = abs((phase + speed * sequence / FPS * 3) % 2 - 1)
        x, y = at * (WIDTH - 60) + noise.normal(0, 1), 120.0 + 60 * person + noise.normal(0, 1)
        score = 0.6 + 0.3 * noise.random()
        if noise.random() > 0.07 and not (person == 1 and 60 < sequence < 110):
            rows.append([x, y, x + 40, y + 90, score, 0])
    if 120 <= sequence < 150:  # nobody is there
        rows = []
    values = np.array(rows, np.float64).reshape(-1, 6)
    return Detections(
        values[:, :4].astype(np.float32), values[:, 4].astype(np.float32), values[:, 5].astype(np.int64)
    )


@dataclass
class Field:
    """A desk of the runtime that is recorded while things happen before its camera.

    Attributes:
        loaded: the configuration.
        clock: moves with the frames, and on by a little while a frame is evaluated, as clocks do.
        events: that the desk made.
    """

    loaded: LoadedConfig
    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    bytes: int = 8 * MIB
    when_full: WhenFull = WhenFull.STOP
    events: list[EventRecord] = field(default_factory=list)
    live: bool = True
    pictures: bool = False
    ending: Ending | None = None

    def __post_init__(self) -> None:
        self.runner = Runner(self.live)
        self.noise = np.random.default_rng(7)
        self.sequence = 0
        self.epoch = 0

    def head(self) -> Head:
        wall = self.clock.wall()
        facts = CameraFacts(model="m", live=self.live, pictures=self.pictures, sight=sight_facts(SIGHT))
        return Head(
            stream=Stream.CAMERAS,
            runtime="test",
            device="device",
            boot_id=wall.boot_id,
            began_ns=self.clock.monotonic_ns(),
            began=wall.isoformat(),
            synced=wall.synced,
            data_class=DataClass.INTERNAL,
            bytes=self.bytes,
            when_full=self.when_full,
            config=facts_of(self.loaded),
            cameras={CAMERA: facts},
        )

    @contextlib.contextmanager
    def recorded(self, **limits: Any) -> Iterator[CameraDesk]:
        """A desk with a tap."""
        self.folder.mkdir(parents=True)
        head = self.head()
        self.writer = RecordingWriter(self.folder, head, self.clock, **limits)
        recorder = CameraRecorder(self.writer, head.cameras)
        try:
            yield self.desk(recorder)
        finally:
            self.ending = self.writer.close(60.0)

    def desk(self, recorder: CameraRecorder | None = None) -> CameraDesk:
        camera = self.loaded.config.cameras[CAMERA]
        events = EventDesk(
            CAMERA,
            camera.rules,
            LABELS,
            data_class=camera.data_class,
            model_digest=MODEL,
            config_digest=self.loaded.digest,
            clock=self.clock,
        )
        return CameraDesk(
            CAMERA,
            camera,
            self.runner,
            events,
            sight=SIGHT,
            sinks=[] if recorder is None else [recorder],
            observer=None,
            times=StageTimes(),
            clock=_Moving(self.clock),
            tap=recorder,
        )

    def frame(self, **more: Any) -> Frame:
        self.clock.pass_s(1 / FPS)
        capture_ns = self.clock.monotonic_ns() - 30_000_000
        image = np.broadcast_to(np.uint8(self.sequence % 200 + 30), (HEIGHT, WIDTH, 3))
        found = Frame(
            image, CAMERA, self.epoch, self.sequence, capture_ns, self.sequence * NS_PER_S // FPS, **more
        )
        self.sequence += 1
        return found

    def look(self, desk: CameraDesk, frames: int) -> None:
        """So many frames of people who walk."""
        for _ in range(frames):
            frame = self.frame()
            self.take(desk, Evaluated(frame, walking(self.sequence, noise=self.noise), "model"))

    def take(self, desk: CameraDesk, outcome: Outcome) -> None:
        self.events += desk.take(outcome)

    def silent(self, desk: CameraDesk, seconds: float, state: SourceState = SourceState.RECONNECTING) -> None:
        """The camera is away for so long, and comes back with a new epoch."""
        self.runner.now = status(state, "the stream ended")
        for _ in range(round(seconds * 10)):
            self.clock.pass_s(0.1)
            self.events += desk.tick()
        self.runner.now = status(superseded=3)
        self.events += desk.tick()
        self.epoch, self.sequence = self.epoch + 1, 0

    def story(self, desk: CameraDesk) -> None:
        """All that may befall a camera, in half a minute of its time."""
        self.look(desk, 60)
        for _ in range(4):
            self.take(desk, NotEvaluated(self.frame(dark=True), Unseen.DARK, "the picture is dark", "model"))
        self.look(desk, 70)
        self.take(desk, NotEvaluated(self.frame(), Unseen.TIMEOUT, "no answer in time", "model"))
        self.silent(desk, 2.0)
        self.look(desk, 90)
        desk.expect(1, Sight(0.4, (OTHER_MODEL,), (("car", "person"),)))
        for _ in range(40):
            frame, seen = self.frame(), walking(self.sequence, noise=self.noise)
            other = Detections(seen.xyxy, seen.score, seen.label + 1)
            self.take(desk, Evaluated(frame, other, "other", lineup=1))
        self.events += desk.finish(interrupted=False)


@dataclass
class _Moving:
    """The desk's clock is a little further each time it is asked, as in the field."""

    clock: FakeClock

    def monotonic_ns(self) -> int:
        self.clock.pass_s(20e-6)
        return self.clock.monotonic_ns()

    def boottime_ns(self) -> int:
        return self.clock.boottime_ns()

    def wall(self) -> Any:
        return self.clock.wall()


def field_run(folder: Path, **more: Any) -> Field:
    """A whole story, recorded in `folder/recording`."""
    run = Field(load_config(write_config(folder)), folder / "recording" / "cameras-000001", **more)
    with run.recorded() as desk:
        run.story(desk)
    return run
