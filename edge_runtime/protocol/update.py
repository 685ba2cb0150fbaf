"""Updates: an assignment from the fleet server down, state reports from the device up, in signed envelopes."""

from enum import Enum
from typing import Annotated

from pydantic import Field, model_validator

from edge_runtime.protocol.release import (
    ReleaseKind,
    ReleaseName,
    Sha256,
    SignedRecord,
    UnixMilliseconds,
    Word,
)
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.topics import DeviceId

ASSIGNMENT_TYPE = "application/vnd.edge-fleet.assignment.v1+json"
REPORT_TYPE = "application/vnd.edge-fleet.state-report.v1+json"
SETTLED_TYPE = "application/vnd.edge-fleet.settled.v1+json"
DIRECTOR_ROLE = "director"
"""Delegated by the verified top-level targets; its key signs assignments, and what is settled."""

SlotName = ReleaseName
"""A model's name in the configuration of the device, or `CONFIGURATION_SLOT`."""

CONFIGURATION_SLOT = "configuration"
MAX_ENVELOPE_BYTES = 64 * 1024
Count = Annotated[int, Field(ge=0, lt=1 << 53)]


class UpdateAction(str, Enum):
    """What a device is asked to do with a slot.

    `HOLD` names no release: stay with what runs; it also takes back an assignment that is not yet in use.
    """

    INSTALL = "install"
    ROLLBACK = "rollback"
    HOLD = "hold"


class Assignment(SignedRecord):
    """The one thing that a device should do next with one slot, signed by the director.

    Attributes:
        key_sha256: of the device's public key (SPKI, DER): an impostor with the same id is somebody else.
        seq: grows with each assignment to this device, whatever the slot.
        rollout: for the record.
        target, length, sha256: the release's bundle; None for `HOLD`.
        root_version, snapshot_version: the least that the device's metadata must have reached.
        nonce: the one that the device sent with its newest report; proves that this was made after it.
        values: per-device values of a configuration, within the bounds of its signed terms.
    """

    device: DeviceId
    key_sha256: Sha256
    seq: Annotated[int, Field(ge=1, lt=1 << 53)]
    slot: SlotName
    action: UpdateAction
    rollout: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    stage: Count | None = None
    target: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    length: Annotated[int, Field(ge=1, le=256 * 1024)] | None = None
    sha256: Sha256 | None = None
    root_version: Count = 0
    snapshot_version: Count = 0
    issued_ms: UnixMilliseconds
    expires_ms: UnixMilliseconds
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    values: Values = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_a_release(self) -> "Assignment":
        named = [value is not None for value in (self.target, self.length, self.sha256)]
        if any(named) != (self.action is not UpdateAction.HOLD) or len(set(named)) > 1:
            raise ValueError("install and rollback name target, length and sha256; hold names none of them")
        if self.expires_ms <= self.issued_ms:
            raise ValueError("it has run out before it was issued")
        return self


class UpdateState(str, Enum):
    """How far a device is with an assignment."""

    ACCEPTED = "accepted"
    DOWNLOADING = "downloading"
    VERIFIED = "verified"
    STAGED = "staged"
    WAITING = "waiting"
    ACTIVATING = "activating"
    PROBATION = "probation"
    HEALTHY = "healthy"
    REVERTED = "reverted"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows for this assignment."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        UpdateState.HEALTHY,
        UpdateState.REVERTED,
        UpdateState.REFUSED,
        UpdateState.SUPERSEDED,
        UpdateState.WITHDRAWN,
    }
)


class LeftAs(str, Enum):
    """The state in which an assignment left the device."""

    UNCHANGED = "unchanged"
    UPDATED = "updated"
    REVERTED = "reverted"
    INCONSISTENT = "inconsistent"


class UpdateCode(str, Enum):
    """Why a device refuses, waits, or goes back. The words are for machines; a report's text is for people."""

    # who says so
    BAD_ENVELOPE = "bad-envelope"
    DIRECTOR_SIGNATURE = "director-signature"
    WRONG_DEVICE = "wrong-device"
    WRONG_KEY = "wrong-key"
    STALE_SEQUENCE = "stale-sequence"
    EXPIRED = "expired"
    CLOCK = "clock"
    METADATA_UNAVAILABLE = "metadata-unavailable"
    METADATA_EXPIRED = "metadata-expired"
    METADATA_ROLLBACK = "metadata-rollback"
    METADATA_INVALID = "metadata-invalid"
    TARGET_UNKNOWN = "target-unknown"
    TARGET_MISMATCH = "target-mismatch"
    # whether people allowed it here and now
    HARDWARE = "hardware"
    ARCHITECTURE = "architecture"
    COMPUTE_CAPABILITY = "compute-capability"
    L4T = "l4t"
    TENSORRT = "tensorrt"
    RUNTIME = "runtime"
    COUNTER = "counter"
    ROLLBACK_NOT_PERMITTED = "rollback-not-permitted"
    RING_CLOSED = "ring-closed"
    KNOWN_BAD = "known-bad"
    SLOT_UNKNOWN = "slot-unknown"
    LABELS = "labels"
    VALUE_NOT_PERMITTED = "value-not-permitted"
    LICENCE = "licence"
    # room and road
    NO_SPACE = "no-space"
    NO_MEMORY = "no-memory"
    BYTE_BUDGET = "byte-budget"
    METERED = "metered"
    DOWNLOAD_NOT_FOUND = "download-not-found"
    DOWNLOAD_FAILED = "download-failed"
    DOWNLOAD_TOO_SLOW = "download-too-slow"
    DOWNLOAD_DEADLINE = "download-deadline"
    CONTENT_MISMATCH = "content-mismatch"
    # whether it is what it says
    EXECUTABLE_CONTENT = "executable-content"
    BAD_BUNDLE = "bad-bundle"
    BAD_PACKAGE = "bad-package"
    BAD_CONFIGURATION = "bad-configuration"
    ENGINE_BUILD = "engine-build"
    GOLDEN_VECTORS = "golden-vectors"
    LOAD = "load"
    # beside the one in use
    SHADOW_DISAGREES = "shadow-disagrees"
    SHADOW_SLOW = "shadow-slow"
    SHADOW_HOT = "shadow-hot"
    SHADOW_NO_DATA = "shadow-no-data"
    # waiting is no failure
    LOCKED = "locked"
    IN_MOTION = "in-motion"
    OUTSIDE_WINDOW = "outside-window"
    # in use
    ACTIVATION = "activation"
    PROBATION_LATENCY = "probation-latency"
    PROBATION_NONFINITE = "probation-nonfinite"
    PROBATION_EVENT_RATE = "probation-event-rate"
    PROBATION_CRASH = "probation-crash"
    PROBATION_GUARD = "probation-guard"
    PROBATION_THERMAL = "probation-thermal"
    PROBATION_NO_DATA = "probation-no-data"
    CRASH_LOOP = "crash-loop"
    ROLLED_BACK = "rolled-back"
    # none of these
    DEADLINE = "deadline"
    STATE_LOST = "state-lost"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"
    DEFECT = "defect"


class DeviceFacts(SignedRecord):
    """What a release must fit.

    Attributes:
        hardware: names that this device answers to: the board's own (device tree's compatible strings), what its
            configuration calls it, and `generic`.
    """

    hardware: Annotated[tuple[Word, ...], Field(max_length=16)] = ("generic",)
    architecture: Word
    compute_capability: Word | None = None
    l4t: Word | None = None
    tensorrt: Word | None = None
    runtime: Word
    memory_mb: Count = 0


class Running(SignedRecord):
    """What a slot runs.

    Attributes:
        sha256: of the release's bundle; None for what the device was set up with, which no release brought.
        package: digest of the model package in use; None for a configuration.
    """

    sha256: Sha256 | None = None
    counter: Count = 0
    package: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None


class StateReport(SignedRecord):
    """What a device says of one slot, signed with the device's own key.

    Attributes:
        report_no: grows with each report of this device, across restarts; the same number is the same report.
        seq: of the assignment it is about; 0 where it is about none (on connecting, or after the state was lost).
        terminal: nothing follows for this `seq`. A device makes exactly one such report of an assignment.
        code: why, for `REFUSED`, `REVERTED`, `WAITING`, `SUPERSEDED` and `WITHDRAWN`.
        left: for terminal reports.
        done_bytes, of_bytes: of the download.
        nonce: for the next assignment to repeat.
    """

    device: DeviceId
    boot_id: Annotated[str, Field(max_length=64)]
    report_no: Annotated[int, Field(ge=1, lt=1 << 53)]
    seq: Count
    slot: SlotName
    state: UpdateState | None = None
    terminal: bool = False
    code: UpdateCode | None = None
    text: Annotated[str, Field(max_length=300)] = ""
    left: LeftAs | None = None
    rollout: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    running: Running
    previous: Running | None = None
    facts: DeviceFacts
    done_bytes: Count | None = None
    of_bytes: Count | None = None
    time_floor_ms: UnixMilliseconds = 0
    at_ms: UnixMilliseconds
    clock_synced: bool
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None

    @model_validator(mode="after")
    def _ends_as_it_says(self) -> "StateReport":
        if self.terminal != (self.state is not None and self.state.is_terminal):
            raise ValueError("a report is terminal exactly where its state is")
        if self.terminal and self.left is None:
            raise ValueError("a terminal report says how it left the device")
        return self


class SettledEnd(SignedRecord):
    """One terminal report that the server has committed.

    Attributes:
        seq: of the assignment.
        report_no: of the report: a settlement lets no other report about the same assignment go.
    """

    seq: Annotated[int, Field(ge=1, lt=1 << 53)]
    report_no: Annotated[int, Field(ge=1, lt=1 << 53)]


class Settled(SignedRecord):
    """Ends of assignments that need not be told again, signed by the director.

    A device deletes a terminal report by it, and by nothing else: whoever carries messages could otherwise make an
    end disappear. What was settled once stays so, thus it has no end of its own.
    """

    device: DeviceId
    ends: Annotated[tuple[SettledEnd, ...], Field(min_length=1, max_length=64)]


def kind_of(slot: str) -> ReleaseKind:
    """The kind of release that a slot takes."""
    return ReleaseKind.CONFIGURATION if slot == CONFIGURATION_SLOT else ReleaseKind.MODEL
