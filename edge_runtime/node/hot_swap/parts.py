"""What a slot works with, and what it keeps of a candidate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.engines.source import EngineSource
from edge_runtime.node.camera import CameraDesk, Sight
from edge_runtime.node.hot_swap.trial import Trial
from edge_runtime.node.models import ReadyModel
from edge_runtime.perception.pipeline import Lane
from edge_runtime.protocol.swap import Candidate, CandidateState
from edge_runtime.protocol.update import UpdateCode


@dataclass(frozen=True, slots=True)
class SlotParts:
    """What a slot works with.

    Attributes:
        configuration: gives the one that holds now.
        engines: where engines come from.
        lane: that the model's cameras share.
        desks: of those cameras.
        dropped: frames of those cameras so far that nobody looked at.
        clock: monotonic time.
    """

    configuration: Callable[[], LoadedConfig]
    engines: EngineSource
    lane: Lane
    desks: Sequence[CameraDesk]
    dropped: Callable[[], int]
    clock: Clock

    @property
    def loaded(self) -> LoadedConfig:
        """The configuration that holds now."""
        return self.configuration()


@dataclass(slots=True)
class Beside:
    """A candidate.

    Attributes:
        release: SHA-256 of its bundle.
        folder: of its package.
        since_ns: CLOCK_MONOTONIC when it was asked for.
        trial: in its own process.
        activating: it is opened in this process, to take over.
        code, text: why it could not be activated.
    """

    release: str
    folder: Path
    since_ns: int
    trial: Trial
    activating: bool = False
    code: UpdateCode | None = None
    text: str = ""

    def state(self) -> CandidateState:
        """How far it is."""
        opened = self.trial.opened
        if self.code is not None or (opened is not None and opened.code is not None):
            return CandidateState.FAILED
        if self.activating:
            return CandidateState.ACTIVATING
        return CandidateState.LOADING if opened is None else CandidateState.LOADED

    def told(self, now_ns: int) -> Candidate:
        """How it stands, at a moment of CLOCK_MONOTONIC."""
        opened = self.trial.opened
        said = (None, "") if opened is None else (opened.code, opened.text)
        code, text = said if self.code is None else (self.code, self.text)
        return Candidate(
            release=self.release,
            package=None if opened is None else opened.package,
            state=self.state(),
            code=code,
            text=text,
            seconds=(now_ns - self.since_ns) / NS_PER_S,
            shadow=self.trial.figures(),
        )


def sight_of(ready: ReadyModel, *, tracks_go_on: bool = False) -> Sight:
    """What the desks of cameras have to know of a model and of the smaller ones in its place."""
    models = (ready.model, *ready.variants)
    return Sight(
        score=ready.score,
        digests=tuple(model.package.digest for model in models),
        labels=tuple(model.manifest.labels for model in models),
        tracks_go_on=tracks_go_on,
    )
