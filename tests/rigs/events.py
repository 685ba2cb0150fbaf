"""A camera in numbers: a clock that the test moves, tracks from short descriptions, frames without a model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.config.rules import RuleConfig
from edge_runtime.events import EventDesk, EvidenceRing, Unobserved
from edge_runtime.events.happening import Happening
from edge_runtime.events.rules import make_rule
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Timeline
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import DataClass, EventRecord
from edge_runtime.sources.frame import Frame

WIDTH, HEIGHT = 100, 100
LABELS = ("person", "bicycle", "car")
CONFIG = "sha256:" + "c" * 64
MODEL = "sha256:" + "a" * 64
_RULE: TypeAdapter[RuleConfig] = TypeAdapter(RuleConfig)


def rule(kind: str, **fields: Any) -> RuleConfig:
    """A validated rule."""
    return _RULE.validate_python({"name": fields.pop("name", "r"), "kind": kind, **fields})


@dataclass(frozen=True)
class Seen:
    """One track whose bottom centre stands at (x, y) px; `seen` False is coasting."""

    x: float
    y: float
    track: int = 1
    label: int = 0
    score: float = 0.9
    seen: bool = True
    width: float = 4.0
    height: float = 8.0


def tracks(*rows: Seen) -> Tracks:
    """The tracker's record of these rows."""
    if not rows:
        return Tracks.empty()
    boxes = [(r.x - r.width / 2, r.y - r.height, r.x + r.width / 2, r.y) for r in rows]
    return Tracks(
        np.array([r.track for r in rows], np.int64),
        np.array(boxes, np.float32),
        np.array([r.score for r in rows], np.float32),
        np.array([r.label for r in rows], np.int64),
        np.array([r.seen for r in rows], np.bool_),
    )


@dataclass
class FakeClock:
    """Both clocks, moved by hand."""

    now_ns: int = 1_000 * NS_PER_S
    unix_ns: int = 1_790_000_000 * NS_PER_S
    synced: bool = True

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def wall(self) -> WallLabel:
        return WallLabel(self.unix_ns, self.synced, "0f1e2d3c-0000-4000-8000-000000000000")

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS_PER_S)
        self.unix_ns += round(seconds * NS_PER_S)


class Machine:
    """One rule alone, stepped with (seconds, rows)."""

    def __init__(self, config: RuleConfig, *, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.rule = make_rule(config, LABELS)
        self.timeline = Timeline()
        self.epoch, self.sequence = 0, -1
        self._size = (width, height)

    def at(self, seconds: float, *rows: Seen) -> list[Happening]:
        """Step one frame at a media time."""
        self.sequence += 1
        at_ns = round(seconds * NS_PER_S)
        moment = self.timeline.advance(
            epoch=self.epoch, sequence=self.sequence, capture_ns=at_ns, media_ns=at_ns
        )
        assert moment is not None
        return self.rule.step(Scene(moment, *self._size, tracks(*rows)))

    def walk(
        self, points: Iterable[tuple[float, float] | None], *, step: float = 0.1, start: float = 0.0
    ) -> list[Happening]:
        """One track through these points, a frame every `step` seconds; None is a frame without it."""
        said = []
        for index, point in enumerate(points):
            said += self.at(start + index * step, *(() if point is None else (Seen(*point),)))
        return said

    def new_epoch(self) -> list[Happening]:
        """The source reconnects."""
        self.epoch, self.sequence = self.epoch + 1, -1
        return self.rule.new_epoch()


@dataclass
class Camera:
    """A desk with its clock; `see` makes one frame that is evaluated `delay` seconds after its capture."""

    rules: Sequence[RuleConfig]
    data_class: DataClass | None = DataClass.INTERNAL
    max_bytes: int = 4096
    evidence: EvidenceRing | None = None
    labels: Sequence[str] = LABELS
    name: str = "dock"
    delay: float = 0.01
    image: Any = None
    clock: FakeClock = field(default_factory=FakeClock)
    epoch: int = 0
    sequence: int = -1

    def __post_init__(self) -> None:
        self._ids = 0
        self._epoch_ns = self.clock.now_ns
        if self.image is None:
            self.image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
        self.desk = EventDesk(
            self.name,
            self.rules,
            self.labels,
            data_class=self.data_class,
            model_digest=MODEL,
            config_digest=CONFIG,
            max_bytes=self.max_bytes,
            clock=self.clock,
            evidence=self.evidence,
            new_id=self._new_id,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"e{self._ids}"

    def reconnect(self) -> None:
        """The source begins a new epoch."""
        self.epoch, self.sequence = self.epoch + 1, -1
        self._epoch_ns = self.clock.now_ns

    def see(
        self, *rows: Seen, after: float = 0.1, dark: bool = False, frozen: bool = False
    ) -> list[EventRecord]:
        """A frame `after` seconds after the one before."""
        self.clock.pass_s(after - self.delay)
        self.sequence += 1
        now = self.clock.now_ns
        frame = Frame(
            self.image, self.name, self.epoch, self.sequence, now, now - self._epoch_ns, dark, frozen
        )
        self.clock.pass_s(self.delay)
        return self.desk.observe(frame, tracks(*rows))

    def watch(self, seconds: float, *rows: Seen, step: float = 0.1) -> list[EventRecord]:
        """The same picture for a while."""
        return [record for _ in range(round(seconds / step)) for record in self.see(*rows, after=step)]

    def blind(
        self, reason: Unobserved, *, after: float = 0.1, detail: str | None = None
    ) -> list[EventRecord]:
        """The camera is not being watched `after` seconds later."""
        self.clock.pass_s(after)
        return self.desk.unobserved(reason, self.clock.now_ns, detail)


def brief(records: Iterable[EventRecord]) -> list[tuple[str, int, str, str]]:
    """Id, revision, state and kind of each record."""
    return [(record.id, record.revision, record.state.value, record.kind) for record in records]


def directions(said: Iterable[Happening]) -> list[str | None]:
    """The directions of happenings in order."""
    return [happening.direction for happening in said]
