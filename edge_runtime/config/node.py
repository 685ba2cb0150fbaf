"""One configuration for one device: cameras, models, rules, limits."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from edge_runtime.config.base import ConfigModel, Fraction, Name, PositiveSeconds, Seconds
from edge_runtime.config.rules import Polygon, RuleConfig, Units, check_polygon
from edge_runtime.config.source import SourceConfig
from edge_runtime.protocol import MAX_EVENT_BYTES, DataClass


class PrivacyMask(ConfigModel):
    """A polygon blacked out right after decoding, before inference, evidence and annotation."""

    polygon: Polygon
    units: Units = "relative"

    @field_validator("polygon")
    @classmethod
    def _polygon(cls, value: Polygon) -> Polygon:
        return check_polygon(value)


class ModelConfig(ConfigModel):
    """A model package and how to run it.

    Attributes:
        package: folder or archive, relative to the configuration file.
        providers: execution providers in order of preference; the effective one is asserted after a warm-up.
        require_gpu: refuse to run on the CPU instead of running degraded.
        threads: intra-op threads of one session; 0 lets the runtime choose by mode and cores.
        spinning: let idle intra-op threads spin; off where several sessions share cores.
        mode: `latency` runs one inference at a time; `throughput` several single-threaded ones in parallel on
            shared weights; `auto` is throughput where every source is a recording taken frame by frame.
        score, nms_iou: override the package's thresholds.
        batch: largest batch to form across cameras; limited by what the package allows.
        timeout: one inference may take this long; later it is cancelled and counted as a failure.
        max_age_days: warn when the package was released longer ago than this.
        accept_licences: SPDX ids beyond the permissive ones that a person has accepted.
    """

    package: str
    providers: tuple[Literal["cpu", "cuda", "tensorrt"], ...] = ("cpu",)
    require_gpu: bool = False
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    spinning: bool = False
    mode: Literal["auto", "latency", "throughput"] = "auto"
    score: Fraction | None = None
    nms_iou: Fraction | None = None
    batch: Annotated[int, Field(ge=1, le=256)] = 8
    timeout: PositiveSeconds = 10.0
    max_age_days: Annotated[int, Field(ge=1)] | None = None
    accept_licences: tuple[str, ...] = ()


class TrackingConfig(ConfigModel):
    """ByteTrack-kind association; the defaults were fixed before any clip was scored.

    Attributes:
        high, low: detections at or above `high` are matched first, those between `low` and `high` second.
        new: a new track needs at least this score.
        confirm: detections needed before a track counts.
        lost: seconds that a track may go unseen before it is forgotten.
        coast: seconds that an unseen track is still reported, at its predicted place, so that a missed detection
            does not empty a zone; one missed frame is bridged however long the frame interval; 0 turns it off.
    """

    high: Fraction = 0.6
    low: Fraction = 0.1
    new: Fraction = 0.7
    confirm: Annotated[int, Field(ge=1, le=100)] = 2
    lost: PositiveSeconds = 3.0
    coast: Seconds = 0.5


class CameraConfig(ConfigModel):
    """One camera: where its frames come from, what may be seen, what counts.

    Attributes:
        data_class: how sensitive what it sees is; without it everything is `unknown`, handled as restricted.
    """

    source: SourceConfig
    model: Name
    data_class: DataClass | None = None
    masks: tuple[PrivacyMask, ...] = ()
    tracking: TrackingConfig = TrackingConfig()
    rules: tuple[RuleConfig, ...] = ()

    @field_validator("rules")
    @classmethod
    def _unique(cls, value: tuple[RuleConfig, ...]) -> tuple[RuleConfig, ...]:
        names = [rule.name for rule in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"rule names must differ; used more than once: {', '.join(twice)}")
        return value


class EvidenceConfig(ConfigModel):
    """The ring of crops on disk.

    Attributes:
        quota_bytes: the oldest crops are deleted beyond this.
        max_bytes: one crop is at most this large; quality and then size go down until it fits.
        margin: added around the box, as a fraction of its size.
    """

    directory: str
    quota_bytes: Annotated[int, Field(ge=65_536)] = 64 * 1024 * 1024
    max_bytes: Annotated[int, Field(ge=2048, le=4 * 1024 * 1024)] = 65_536
    margin: Annotated[float, Field(ge=0, le=2)] = 0.15


class EventsConfig(ConfigModel):
    """Where events go and how large one may be."""

    file: str | None = None
    max_bytes: Annotated[int, Field(ge=512, le=65_536)] = MAX_EVENT_BYTES


class DeviceProfile(ConfigModel):
    """The limits of the device itself; all five must be known before it goes into the field (R000-08)."""

    power_watts: Annotated[float, Field(gt=0)]
    max_temperature_c: Annotated[float, Field(gt=0, le=150)]
    sensor_bandwidth_mbps: Annotated[float, Field(gt=0)]
    link: Literal["none", "intermittent", "metered", "steady"]
    response_deadline_ms: Annotated[float, Field(gt=0)]


class DeviceConfig(ConfigModel):
    """Who this device is."""

    name: Name = "device"
    profile: DeviceProfile | None = None


class LoggingConfig(ConfigModel):
    """Structured logs on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class NodeConfig(ConfigModel):
    """The whole file. Paths in it are relative to the file."""

    version: Literal[1] = 1
    device: DeviceConfig = DeviceConfig()
    models: Annotated[dict[Name, ModelConfig], Field(min_length=1)]
    cameras: Annotated[dict[Name, CameraConfig], Field(min_length=1)]
    events: EventsConfig = EventsConfig()
    evidence: EvidenceConfig | None = None
    logging: LoggingConfig = LoggingConfig()

    @model_validator(mode="after")
    def _models_exist(self) -> "NodeConfig":
        for name, camera in self.cameras.items():
            if camera.model not in self.models:
                raise ValueError(
                    f"cameras.{name}.model: there is no model named {camera.model}; "
                    f"models are {', '.join(sorted(self.models))}"
                )
        if self.evidence is None:
            for name, camera in self.cameras.items():
                for index, rule in enumerate(camera.rules):
                    if rule.evidence:
                        raise ValueError(
                            f"cameras.{name}.rules[{index}].evidence: needs an evidence section with a directory"
                        )
        return self
