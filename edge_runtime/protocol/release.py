"""What people sign: a release of a model or of a configuration, its files, and the terms under which it may run.

A release is one small file, `bundle.json`, that lists every other file with its length and SHA-256. It is a target
of the fleet's TUF repository, `models/<name>/<counter>/bundle.json` or the same below `configurations/`, and its
terms are the target's custom metadata: both are signed offline, by its builder and by its approver.
"""

import hashlib
import json
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from edge_runtime.protocol.release_values import Declared

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ReleaseName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
FilePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._,:+/-]{0,127}$")]
Ratio = Annotated[float, Field(ge=0, le=1)]
UnixMilliseconds = Annotated[int, Field(ge=0, lt=1 << 53)]

BUNDLE_NAME = "bundle.json"
MAX_BUNDLE_BYTES = 256 * 1024
MAX_FILES = 256
BUCKETS = 10_000
"""Devices are spread over so many buckets; a stage opens the first `basis_points` of them."""


class SignedRecord(BaseModel):
    """Base of what is signed: exact, because an instruction that is not understood may not be passed over."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def canonical_bytes(self) -> bytes:
        """This record as sorted, compact JSON: same content, same bytes."""
        return canonical(self.model_dump(mode="json", exclude_none=True))


class ReleaseKind(str, Enum):
    """What a release changes on a device."""

    MODEL = "model"
    CONFIGURATION = "configuration"

    @property
    def role(self) -> str:
        """The delegated role that signs for it, and the first part of its target's path."""
        return f"{self.value}s"


class BundleFile(SignedRecord):
    """One file of a release; several releases may share its content, which is fetched once."""

    path: FilePath
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0, le=4 << 30)]


class Bundle(SignedRecord):
    """`bundle.json`: the whole content of a release.

    Attributes:
        name: of the line of releases; a release of one name follows another of that name.
        files: sorted by path, each path once, none of them a folder of another.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    kind: ReleaseKind
    name: ReleaseName
    files: Annotated[tuple[BundleFile, ...], Field(min_length=1, max_length=MAX_FILES)]

    @property
    def sha256(self) -> str:
        """Of `bundle.json`: what names the release on devices and in assignments."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    @property
    def total_bytes(self) -> int:
        """Length of all files together."""
        return sum(file.bytes for file in self.files)

    @model_validator(mode="after")
    def _paths(self) -> "Bundle":
        paths = [file.path for file in self.files]
        if paths != sorted(set(paths)):
            raise ValueError("files must be sorted by path, each of them once")
        for path in paths:
            parts = path.split("/")
            if any(part in ("", ".", "..") for part in parts) or path == BUNDLE_NAME:
                raise ValueError(f"{path!r} is no path of a file in a release")
            if any("/".join(parts[:depth]) in paths for depth in range(1, len(parts))):
                raise ValueError(f"{path!r} lies in a folder that is a file")
        return self


class VersionBounds(SignedRecord):
    """Versions that are accepted: `at_least <= version < below`, compared number by number; None is no bound."""

    at_least: Annotated[str, Field(pattern=r"^\d+(\.\d+){0,3}$")] | None = None
    below: Annotated[str, Field(pattern=r"^\d+(\.\d+){0,3}$")] | None = None

    def admits(self, version: str | None) -> bool:
        """Whether a version lies within the bounds; an unknown one does only where there are none."""
        if self.at_least is None and self.below is None:
            return True
        if version is None:
            return False
        found = _numbers(version)
        low = self.at_least is None or found >= _numbers(self.at_least)
        return low and (self.below is None or found < _numbers(self.below))


class Fit(SignedRecord):
    """The devices that a release is made for; an empty list or None asks for nothing.

    Attributes:
        hardware: a device is one of these when it answers to any of the names (see `DeviceFacts.hardware`).
        architectures: of the processor, as `uname -m` says it.
        compute_capabilities: of the GPU, "8.7".
        l4t, tensorrt, runtime: versions of the board's software, of TensorRT, and of this runtime.
        memory_mb: main memory that must be there in all.
    """

    hardware: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    architectures: Annotated[tuple[Word, ...], Field(max_length=8)] = ()
    compute_capabilities: Annotated[tuple[Word, ...], Field(max_length=32)] = ()
    l4t: VersionBounds = VersionBounds()
    tensorrt: VersionBounds = VersionBounds()
    runtime: VersionBounds = VersionBounds()
    memory_mb: Annotated[int, Field(ge=0)] = 0


class Opening(SignedRecord):
    """From when on which share of the devices may take a release: signed, so that no server can open it early."""

    basis_points: Annotated[int, Field(ge=1, le=BUCKETS)]
    not_before_ms: UnixMilliseconds = 0


class ShadowTerms(SignedRecord):
    """How a new model runs beside the one in use before it takes its place; `seconds` 0 is not at all.

    Attributes:
        seconds: for which it must have run on live frames.
        max_seconds: after which too few frames are a refusal.
        min_frames: that both models must have seen.
        min_agreement: share of the running model's objects that the new one finds, and of its own that are found.
        max_latency_ratio: of the median time of one inference to that of the running model.
    """

    seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 60
    max_seconds: Annotated[int, Field(ge=1, le=14 * 86_400)] = 3_600
    min_frames: Annotated[int, Field(ge=1)] = 50
    min_agreement: Ratio = 0.5
    max_latency_ratio: Annotated[float, Field(gt=0)] = 2.0


class ProbationTerms(SignedRecord):
    """How a new release proves itself in use before it is kept.

    Attributes:
        seconds: for which it must have run well.
        max_seconds: after which too few frames are a failure.
        min_frames: evaluated, that a verdict needs.
        max_latency_ratio: of the 95th percentile of the model's time to that before the activation.
        max_latency_ms: the same as a figure; None is no bound.
        max_event_rate_ratio: so many times more, or fewer, events an hour than before is a failure, once either
            side has `min_events`.
        min_events: events that a comparison of rates needs on the side that has more.
        max_temperature_rise_c: of the hottest zone above that before the activation.
    """

    seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] = 300
    max_seconds: Annotated[int, Field(ge=1, le=14 * 86_400)] = 7_200
    min_frames: Annotated[int, Field(ge=1)] = 100
    max_latency_ratio: Annotated[float, Field(gt=0)] = 1.5
    max_latency_ms: Annotated[float, Field(gt=0)] | None = None
    max_event_rate_ratio: Annotated[float, Field(gt=1)] = 5.0
    min_events: Annotated[int, Field(ge=1)] = 20
    max_temperature_rise_c: Annotated[float, Field(gt=0)] = 15.0


class TrackerRule(str, Enum):
    """What trackers do when a model takes another's place."""

    CONTINUE = "continue"
    RESTART = "restart"


REVISABLE = frozenset(("fit", "rollback_to", "openings", "shadow", "probation", "trackers", "notes"))
"""Terms that people may sign anew for a release that is out. The others are of its content, or of its place."""


class ReleaseTerms(SignedRecord):
    """The custom metadata of a release's target; `custom` and `from_custom` are its form there.

    Attributes:
        counter: grows with each release of a name; a device does not go back below what it runs, except to
            `rollback_to`.
        revision: grows when people sign other terms for the same release (`REVISABLE`).
        package: digest of the model package, `sha256:…`; None for a configuration.
        labels: of the model, in order; a release with others needs `relabels`.
        relabels: a person said that the labels are meant to be others than those of the release before.
        accepts_drop: why a lower accuracy than that of the release before is meant; None where it is not lower.
        licence: SPDX id of the weights.
        total_bytes: of all files.
        rollback_to: SHA-256 of the bundles to which a device that runs this release may be sent back.
        salt: of the spread over the buckets.
        openings: shares that may take it, from when on; in order of both. Without any, nobody may.
        values: of single devices that the fleet server may set, with their bounds; no others.
        notes: for people.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    kind: ReleaseKind
    name: ReleaseName
    counter: Annotated[int, Field(ge=1, lt=1 << 53)]
    revision: Annotated[int, Field(ge=1, lt=1 << 31)] = 1
    package: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    labels: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(max_length=4096)
    ] = ()
    relabels: bool = False
    accepts_drop: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    licence: Annotated[str, Field(min_length=2, max_length=64)] | None = None
    total_bytes: Annotated[int, Field(ge=1)]
    fit: Fit = Fit()
    rollback_to: Annotated[tuple[Sha256, ...], Field(max_length=64)] = ()
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]
    openings: Annotated[tuple[Opening, ...], Field(max_length=16)]
    shadow: ShadowTerms = ShadowTerms()
    probation: ProbationTerms = ProbationTerms()
    trackers: TrackerRule = TrackerRule.RESTART
    values: Declared = Field(default_factory=dict)
    notes: Annotated[str, Field(max_length=500)] = ""

    @model_validator(mode="after")
    def _whole(self) -> "ReleaseTerms":
        shares = [opening.basis_points for opening in self.openings]
        times = [opening.not_before_ms for opening in self.openings]
        if shares != sorted(set(shares)) or times != sorted(times):
            raise ValueError("openings must grow in share and time")
        if (self.package is None) != (self.kind is ReleaseKind.CONFIGURATION):
            raise ValueError("a model has a package's digest, and a configuration has none")
        if self.values and self.kind is not ReleaseKind.CONFIGURATION:
            raise ValueError("only a configuration has values")
        return self

    @property
    def target(self) -> str:
        """Path of the release's target in the repository."""
        return target_path(self.kind, self.name, self.counter)

    def custom(self) -> dict[str, Any]:
        """These terms as they stand in TUF metadata, whose canonical JSON knows no fractions: those are text."""
        found: dict[str, Any] = _without_fractions(self.model_dump(mode="json", exclude_none=True))
        return found

    @classmethod
    def from_custom(cls, custom: Any) -> Self:
        """The terms in a target's custom metadata.

        Raises:
            ValueError: they are none (pydantic's `ValidationError` is one).
        """
        return cls.model_validate(custom)

    def opened_basis_points(self, now_ms: int) -> int:
        """The share of the buckets that may take this release at a time, 0 to 10,000."""
        return max((o.basis_points for o in self.openings if o.not_before_ms <= now_ms), default=0)


def target_path(kind: ReleaseKind, name: str, counter: int) -> str:
    """The path of a release in the repository; `ReleaseTerms.target` is the usual way to it."""
    return f"{kind.role}/{name}/{counter}/{BUNDLE_NAME}"


def bucket(salt: str, device: str) -> int:
    """Where a device stands in the spread, 0 to 9,999; a share of `basis_points` has those below it."""
    return int.from_bytes(hashlib.sha256(f"{salt}/{device}".encode()).digest()[:8], "big") % BUCKETS


def canonical(data: Any) -> bytes:
    """Plain data as sorted, compact JSON."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _without_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_fractions(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_fractions(inner) for inner in value]
    return repr(value) if isinstance(value, float) else value


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, without zeros at the end: "36.4.0" is as new as "36.4"."""
    found: list[int] = []
    for part in version.split("."):
        digits = part[: next((at for at, sign in enumerate(part) if not sign.isdigit()), len(part))]
        if not digits:
            break
        found.append(int(digits))
        if len(digits) < len(part):
            break
    while found and not found[-1]:
        found.pop()
    return tuple(found)
