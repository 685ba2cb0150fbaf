"""What the machine goes by: plain values of perception, of the guard, of locks, and of the errand under way."""

from dataclasses import dataclass

from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import UpdateCode


@dataclass(frozen=True, slots=True)
class InUse:
    """What a slot runs, as perception says it.

    Attributes:
        release: SHA-256 of the bundle; None for the package that the configuration names.
        package: digest of the model package, `sha256:…`; None for a configuration.
        process: changes with each start of perception.
        seconds: since this release is in use in that process.
        frames: shown to it in that time.
        unanswered: of them: it failed, took too long, or gave no numbers.
        nonfinite: frames in that time that held values that are no numbers.
        events: of the slot's cameras in that time.
        latency_p50_ms, latency_p95_ms: of one inference over the last window; None before there is a window.
        celsius: of the hottest zone; None where none is known.
    """

    release: str | None
    package: str | None = None
    process: str = ""
    seconds: float = 0.0
    frames: int = 0
    unanswered: int = 0
    nonfinite: int = 0
    events: int = 0
    latency_p50_ms: float | None = None
    latency_p95_ms: float | None = None
    celsius: float | None = None

    @property
    def answered(self) -> int:
        """Frames that the model answered."""
        return self.frames - self.unanswered


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A candidate beside the release in use, on the same live frames.

    Attributes:
        seconds: for which it has run so.
        frames: that both have answered.
        unanswered: that the candidate alone has not.
        nonfinite: frames in which outputs of the candidate held values that are no numbers.
        running_objects, found: objects of the model in use, and how many of them the candidate finds.
        candidate_objects, confirmed: objects of the candidate, and how many of them the model in use finds.
        running_ms, candidate_ms: median time of one inference of each, taken in the same way; None where unknown.
        on: it is shown frames now.
    """

    seconds: float = 0.0
    frames: int = 0
    unanswered: int = 0
    nonfinite: int = 0
    running_objects: int = 0
    found: int = 0
    candidate_objects: int = 0
    confirmed: int = 0
    running_ms: float | None = None
    candidate_ms: float | None = None
    on: bool = False

    @property
    def objects(self) -> int:
        """Of both models, which a share of agreement stands on."""
        return self.running_objects + self.candidate_objects

    @property
    def agreement(self) -> float | None:
        """The lower of both shares; None where neither model saw anything."""
        shares = [
            part / whole
            for part, whole in (
                (self.found, self.running_objects),
                (self.confirmed, self.candidate_objects),
            )
            if whole
        ]
        return min(shares, default=None)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What perception has loaded beside the release in use.

    Attributes:
        code, text: why it failed.
        shadow: what came of it beside the model in use.
    """

    release: str
    loading: CandidateState
    code: UpdateCode | None = None
    text: str = ""
    shadow: Shadowed = Shadowed()


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A release that perception did not take at its start: begun too often, or it does not open."""

    release: str
    code: UpdateCode
    text: str = ""


@dataclass(frozen=True, slots=True)
class SlotView:
    """One slot, as perception says it now."""

    in_use: InUse
    candidate: Candidate | None = None
    given_up: GivenUp | None = None


@dataclass(frozen=True, slots=True)
class Errand:
    """The one lengthy thing under way: a download, or a refresh of the metadata.

    Attributes:
        over: whether it has come to its end.
        code, text, again: why it failed; `code` is None where it did not.
        done_bytes, of_bytes: of a download.
        moved_bytes: whether any byte came since it began, so that a link that is cut now and then is no failure.
    """

    over: bool = False
    code: UpdateCode | None = None
    text: str = ""
    again: bool = False
    done_bytes: int = 0
    of_bytes: int = 0
    moved_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """What beside the slot has a say.

    Attributes:
        obstacle: what keeps from activating now: `LOCKED`, `IN_MOTION`; None where nothing does.
        obstacle_text: of it, for people.
        trip_ages_s: how long ago the guard held the body for a reason that a model may have given it.
        guard: changes with each start of the guard, and with it of all processes; empty where no guard runs.
        celsius: of the hottest zone; None where none is known.
    """

    obstacle: UpdateCode | None = None
    obstacle_text: str = ""
    trip_ages_s: tuple[float, ...] = ()
    guard: str = ""
    celsius: float | None = None
