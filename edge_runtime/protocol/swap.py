"""Perception's socket: the updates' process asks what runs, and has a model loaded, shadowed, taken or left.

One JSON object a line each way, at most `MAX_LINE_BYTES`; a connection may ask as often as it likes, one thing
after the other. What takes long (loading, activating) is taken up and answered at once; `Look` says how far it is.
Asking for what is already so is no error, so that whoever was interrupted asks again.

A slot has at most three models: the one in use, a candidate beside it, and, after an activation, the one that was
in use before, which stays loaded until `Settle` so that `Revert` takes effect at the next frame.
"""

from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from edge_runtime.protocol.release import Sha256, TrackerRule
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.update import SlotName, UpdateCode

MAX_LINE_BYTES = 64 * 1024
MAX_SLOTS = 64
WINDOW_S = 60.0
"""Percentiles of a model's time are over the inferences of so many seconds."""

MATCH_IOU = 0.5
"""Two models agree about an object when they give it the same label and boxes that overlap so much."""

PackageDigest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]


class SwapRecord(BaseModel):
    """Base of what goes over the socket: exact, because both ends are of one installation."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# ---- what is asked


class Look(SwapRecord):
    """How a slot stands; without a name, how all of them do. Nothing changes."""

    do: Literal["look"] = "look"
    slot: SlotName | None = None


class Load(SwapRecord):
    """Open a package beside the model in use, at low priority: `Candidate.state` says how far it is.

    A candidate that is another release is discarded for it.

    Attributes:
        release: SHA-256 of the release's bundle.
        package_dir: absolute; the folder with the package's files, or with those of a configuration.
        values: per-device values of a configuration; a model has none.
    """

    do: Literal["load"] = "load"
    slot: SlotName
    release: Sha256
    package_dir: Annotated[str, Field(min_length=2, max_length=4096)]
    values: Values = Field(default_factory=dict)

    @field_validator("package_dir")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute() or "\0" in value:
            raise ValueError("must be an absolute path")
        return value


class Shadow(SwapRecord):
    """Show the loaded candidate frames of the slot's cameras, or stop that; figures stay until it is discarded."""

    do: Literal["shadow"] = "shadow"
    slot: SlotName
    on: bool


class Activate(SwapRecord):
    """Let the loaded candidate take over between two frames; `Running.release` says when it has.

    Attributes:
        release: of the candidate; another is refused.
        trackers: whether tracks go on under the new model.
    """

    do: Literal["activate"] = "activate"
    slot: SlotName
    release: Sha256
    trackers: TrackerRule = TrackerRule.RESTART


class Revert(SwapRecord):
    """Let the model that was in use before take over again between two frames; the one in use is then freed.

    Perception that was started anew since has not loaded it: then what is named here is opened first, while the one
    in use looks on, and `RunningModel.release` says when it has taken over.

    Attributes:
        release: SHA-256 of the bundle to go back to; None for the package of the configuration.
        package_dir: absolute; the folder with the files of `release`; None with it.
    """

    do: Literal["revert"] = "revert"
    slot: SlotName
    release: Sha256 | None = None
    package_dir: Annotated[str, Field(min_length=2, max_length=4096, pattern=r"^/[^\x00]*$")] | None = None


class Settle(SwapRecord):
    """Free the model that was in use before: the one in use stays."""

    do: Literal["settle"] = "settle"
    slot: SlotName


class Discard(SwapRecord):
    """Free the candidate, whatever it is at."""

    do: Literal["discard"] = "discard"
    slot: SlotName


Ask = Look | Load | Shadow | Activate | Revert | Settle | Discard
_ASK: TypeAdapter[Ask] = TypeAdapter(Annotated[Ask, Field(discriminator="do")])


def read_ask(line: bytes) -> Ask:
    """What a line asks.

    Raises:
        ValueError: it asks for nothing that there is.
    """
    return _ASK.validate_json(line)


# ---- what is answered


class CandidateState(str, Enum):
    """How far a candidate is.

    Attributes:
        LOADING: it is opened, and proved by its golden vectors, in a process of its own.
        LOADED: it may be shadowed, and activated.
        ACTIVATING: it is opened in this process and takes over at the next frame.
        FAILED: `Candidate.code` and `Candidate.text` say why; it can be discarded, or loaded anew.
    """

    LOADING = "loading"
    LOADED = "loaded"
    ACTIVATING = "activating"
    FAILED = "failed"


class RunningModel(SwapRecord):
    """The model in use, since it came into use in this process.

    Attributes:
        release: SHA-256 of its bundle; None for the package of the configuration.
        package: digest of the package.
        seconds: in use.
        frames: that it was shown, answered or not.
        unanswered: of them: it failed, took too long, or gave no numbers.
        nonfinite: of `frames`: outputs held a NaN or an infinite value where a box would have been.
        events: happenings of the slot's cameras.
        dropped: frames of the slot's cameras that nobody looked at: too old, replaced by a newer one.
        window_frames: inferences of the last `WINDOW_S`.
        p50_ms, p95_ms: time of one inference divided by its frames, over that window; None without one.
    """

    release: Sha256 | None = None
    package: PackageDigest
    seconds: Amount
    frames: Count = 0
    unanswered: Count = 0
    nonfinite: Count = 0
    events: Count = 0
    dropped: Count = 0
    window_frames: Count = 0
    p50_ms: Amount | None = None
    p95_ms: Amount | None = None


class ShadowFigures(SwapRecord):
    """The candidate on frames that the model in use had answered; objects are detections at each model's own score.

    Both times are measured in the candidate's process, one model after the other, in the same way; where the model
    in use could not be measured there, `running_ms` is None.

    Attributes:
        on: it is shown frames now.
        seconds: for which it was, all together.
        frames: that both have answered.
        unanswered: that the candidate has not.
        nonfinite: frames in which its outputs held a NaN or an infinite value where a box would have been.
        running_objects: of the model in use, in `frames`.
        found: of them, by the candidate: same label, boxes that overlap by `MATCH_IOU`.
        candidate_objects: of the candidate.
        confirmed: of them, by the model in use.
        running_ms, candidate_ms: median time of one inference of one frame.
    """

    on: bool = False
    seconds: Amount = 0.0
    frames: Count = 0
    unanswered: Count = 0
    nonfinite: Count = 0
    running_objects: Count = 0
    found: Count = 0
    candidate_objects: Count = 0
    confirmed: Count = 0
    running_ms: Amount | None = None
    candidate_ms: Amount | None = None

    @property
    def agreement(self) -> float | None:
        """The lower one of both shares, 0 to 1; None while neither model has seen an object."""
        shares = [
            share / of
            for share, of in ((self.found, self.running_objects), (self.confirmed, self.candidate_objects))
            if of
        ]
        return min(shares, default=None)

    @property
    def latency_ratio(self) -> float | None:
        """The candidate's median time over that of the model in use; None while either is unknown."""
        if not self.running_ms or self.candidate_ms is None:
            return None
        return self.candidate_ms / self.running_ms


class Candidate(SwapRecord):
    """A model beside the one in use.

    Attributes:
        package: digest of the package; None until it is known.
        code, text: why it failed.
        seconds: since it was asked for.
    """

    release: Sha256
    package: PackageDigest | None = None
    state: CandidateState
    code: UpdateCode | None = None
    text: Annotated[str, Field(max_length=300)] = ""
    seconds: Amount
    shadow: ShadowFigures = ShadowFigures()


class Kept(SwapRecord):
    """The model that was in use before."""

    release: Sha256 | None = None
    package: PackageDigest


class GivenUp(SwapRecord):
    """A release that slots.json names and that this process did not take at its start.

    Attributes:
        code: `crash-loop` where it was begun too often without being kept, else why it does not open.
    """

    release: Sha256
    code: UpdateCode
    text: Annotated[str, Field(max_length=300)] = ""


class SlotLook(SwapRecord):
    """How one slot stands.

    Attributes:
        previous: what `Revert` goes back to.
        given_up: what was not taken at the start, until another model is activated.
    """

    slot: SlotName
    running: RunningModel
    candidate: Candidate | None = None
    previous: Kept | None = None
    given_up: GivenUp | None = None


class SwapAnswer(SwapRecord):
    """The answer to every line.

    Attributes:
        ok: done, or taken up.
        code, text: why not. A line that cannot be read has the code `defect`.
        again: whether that says how the slot stands now, and the same may be done later.
        pid: of perception: another one has started anew, without candidates, with what slots.json says.
        up_s: since it began to look.
        temperature_c: of the hottest sensor; None where none is known.
        slots: the slot that was asked about, after what was done; all where no name was given.
    """

    ok: bool
    code: UpdateCode | None = None
    text: Annotated[str, Field(max_length=300)] = ""
    again: bool = False
    pid: Annotated[int, Field(ge=1)]
    up_s: Amount
    temperature_c: float | None = None
    slots: Annotated[tuple[SlotLook, ...], Field(max_length=MAX_SLOTS)] = ()


def line_of(record: SwapRecord) -> bytes:
    """A record as one line."""
    return record.model_dump_json(exclude_none=True).encode() + b"\n"
