"""What a run looks like from outside: plain values for the live view, the summary and `--summary FILE`."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.perception.pipeline import StageSummary
from edge_runtime.protocol import EventRecord


@dataclass(frozen=True, slots=True)
class CameraSnapshot:
    """One camera.

    Attributes:
        state: of the source.
        decoded: frames decoded.
        evaluated: frames that the model answered.
        not_evaluated: frames delivered without an answer, by reason.
        drops: frames dropped, by cause.
        tracks: objects followed now.
        age_ms: of the last frame when its rules had run.
        events: happenings by rule; what the camera says of itself has the rule `@camera`.
        late: event revisions that left the rules after their deadline.
        nonfinite: candidates dropped for a NaN or infinite value.
        error: the source's last error, without credentials.
        expected: frames that a recording declares; None for live cameras and where it does not say.
    """

    state: str
    decoded: int
    evaluated: int
    not_evaluated: Mapping[str, int]
    drops: Mapping[str, int]
    reconnects: int
    tracks: int
    age_ms: float
    events: Mapping[str, int]
    late: int
    nonfinite: int
    error: str | None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A whole run, so far or at its end."""

    seconds: float
    cameras: Mapping[str, CameraSnapshot]
    stages: Mapping[str, StageSummary]
    recent: tuple[EventRecord, ...]
    interrupted: bool

    @property
    def frames(self) -> int:
        """Frames that the model answered, all cameras."""
        return sum(camera.evaluated for camera in self.cameras.values())

    @property
    def fps(self) -> float:
        """`frames` per second of the run."""
        return self.frames / self.seconds if self.seconds > 0 else 0.0
