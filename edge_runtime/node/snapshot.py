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
        suppressed: happenings that a cooldown or a rate cap held back, by rule.
        refused_too_large: revisions that could not be brought under the size cap.
        evidence_failed: crops that could not be kept; their events went out without.
        damaged: frames of which the decoder guessed parts.
        nonfinite: candidates dropped for a NaN or infinite value.
        error: the source's last error, without credentials.
        last_text: why the last frame without an answer had none; empty where all had one.
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
    suppressed: Mapping[str, int]
    refused_too_large: int
    evidence_failed: int
    damaged: int
    nonfinite: int
    error: str | None
    last_text: str
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """One model: what it is and what really runs it.

    Attributes:
        name, digest: of the package.
        backend: library and version.
        effective: the provider that runs the graph.
        degraded: why it is slower than asked for, or None.
        mode, workers, threads: how it is run.
        release: SHA-256 of the bundle that brought it; None for the package of the configuration.
        given_up: the release that was assigned, and did not stay or open at the start.
    """

    name: str
    digest: str
    backend: str
    effective: str
    degraded: str | None
    mode: str
    workers: int
    threads: int
    release: str | None = None
    given_up: str | None = None


@dataclass(frozen=True, slots=True)
class HeatSnapshot:
    """What the thermal governor does.

    Attributes:
        frame_share: of the work on live cameras that is done, above 0, at most 1.
        variant: 0 while the configured models look, 1 and 2 for the smaller ones in their places.
        why: in a few words.
        celsius: of the sensor nearest to its limit, as if the limit were `limit_c`; None where none is known.
        limit_c: no sensor shall come near this.
        peak_hz, sustained_hz: inferences a second of a model that is never idle, at best and as it holds; None
            in the first minute.
        settled: whether the rate is level.
        shortest_deadline_s: from capture to event, that can be promised at the sustained rate.
    """

    frame_share: float
    variant: int
    why: str
    celsius: float | None
    limit_c: float
    peak_hz: float | None
    sustained_hz: float | None
    settled: bool
    shortest_deadline_s: float | None


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A whole run, so far or at its end.

    Attributes:
        heat: what the governor does; None where it does not run.
    """

    seconds: float
    cameras: Mapping[str, CameraSnapshot]
    models: Mapping[str, ModelSnapshot]
    stages: Mapping[str, StageSummary]
    recent: tuple[EventRecord, ...]
    interrupted: bool
    heat: HeatSnapshot | None = None

    @property
    def frames(self) -> int:
        """Frames that the model answered, all cameras."""
        return sum(camera.evaluated for camera in self.cameras.values())

    @property
    def fps(self) -> float:
        """`frames` per second of the run."""
        return self.frames / self.seconds if self.seconds > 0 else 0.0
