"""One configuration for one device: cameras, models, rules, limits."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from edge_runtime.config.base import (
    ConfigModel,
    Flag,
    Fraction,
    Integer,
    Name,
    PositiveSeconds,
    Real,
    Text,
)
from edge_runtime.config.camera import CameraConfig, PrivacyMask, TrackingConfig
from edge_runtime.config.checks import cross_checks
from edge_runtime.config.delivery import DeliveryConfig
from edge_runtime.config.engines import EnginesConfig, TensorRtConfig
from edge_runtime.config.faults import FaultsConfig
from edge_runtime.config.guard import GuardConfig
from edge_runtime.config.output import EventsConfig, EvidenceConfig
from edge_runtime.config.updates import UpdatesConfig
from edge_runtime.document import format_location

__all__ = [
    "CameraConfig",
    "DeliveryConfig",
    "DeviceConfig",
    "DeviceProfile",
    "EnginesConfig",
    "EventsConfig",
    "EvidenceConfig",
    "FaultsConfig",
    "GuardConfig",
    "LoggingConfig",
    "ModelConfig",
    "NodeConfig",
    "PrivacyMask",
    "TensorRtConfig",
    "TrackingConfig",
    "UpdatesConfig",
]


class ModelConfig(ConfigModel):
    """A model package and how to run it.

    Attributes:
        package: folder or archive, relative to the configuration file.
        providers: what runs the model, in order of preference: `tensorrt` by an engine that is built for this
            device, `cuda` and `cpu` by ONNX Runtime. The one that really runs it is asserted after a warm-up.
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
        tensorrt: how TensorRT runs it.
    """

    package: Text
    providers: Annotated[tuple[Literal["cpu", "cuda", "tensorrt"], ...], Field(min_length=1)] = ("cpu",)
    require_gpu: Flag = False
    threads: Annotated[Integer, Field(ge=0, le=256)] = 0
    spinning: Flag = False
    mode: Literal["auto", "latency", "throughput"] = "auto"
    score: Fraction | None = None
    nms_iou: Fraction | None = None
    batch: Annotated[Integer, Field(ge=1, le=256)] = 8
    timeout: PositiveSeconds = 10.0
    max_age_days: Annotated[Integer, Field(ge=1)] | None = None
    accept_licences: tuple[Text, ...] = ()
    tensorrt: TensorRtConfig = TensorRtConfig()


class DeviceProfile(ConfigModel):
    """The limits of the device itself; all five must be known before it goes into the field.

    Attributes:
        power_watts: what the device may draw.
        max_temperature_c: the hottest it may become, in degrees Celsius.
        sensor_bandwidth_mbps: what all its cameras together deliver, in megabits per second.
        link: how the device is connected.
        response_deadline_ms: from capture to reaction, the longest that its purpose allows.
    """

    power_watts: Annotated[Real, Field(gt=0)]
    max_temperature_c: Annotated[Real, Field(gt=0, le=150)]
    sensor_bandwidth_mbps: Annotated[Real, Field(gt=0)]
    link: Literal["none", "intermittent", "metered", "steady"]
    response_deadline_ms: Annotated[Real, Field(gt=0)]


class DeviceConfig(ConfigModel):
    """Who this device is.

    Attributes:
        name: of the device in its fleet.
        purpose: `field` is production; `bench` is for tests alone, and is what the fault injector needs.
        profile: its limits; `edge-runtime preflight` asks for them.
    """

    name: Name = "device"
    purpose: Literal["field", "bench"] = "field"
    profile: DeviceProfile | None = None


class LoggingConfig(ConfigModel):
    """Structured logs on stderr.

    Attributes:
        level: lines below it are not written.
        format: `console` is `key=value` for people, `json` one object a line.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class NodeConfig(ConfigModel):
    """The whole file. Paths in it are relative to the file.

    Attributes:
        version: of this format.
        device: who this device is and what it can bear.
        models: model packages by name.
        cameras: cameras by name.
        events: where events go.
        evidence: the ring of crops on disk; rules with `evidence: true` need it.
        delivery: how events leave the device; without it they stay.
        guard: what holds the permission to move and watches the device's processes.
        engines: TensorRT engines; they are built and kept where a model has `tensorrt` among its providers.
        updates: releases of models and configurations that the fleet assigns; without it the device takes none.
        faults: the fault injector, off without it.
        logging: logs on stderr.
    """

    version: Literal[1] = 1
    device: DeviceConfig = DeviceConfig()
    models: Annotated[dict[Name, ModelConfig], Field(min_length=1)]
    cameras: Annotated[dict[Name, CameraConfig], Field(min_length=1)]
    events: EventsConfig = EventsConfig()
    evidence: EvidenceConfig | None = None
    delivery: DeliveryConfig | None = None
    guard: GuardConfig | None = None
    engines: EnginesConfig = EnginesConfig()
    updates: UpdatesConfig | None = None
    faults: FaultsConfig | None = None
    logging: LoggingConfig = LoggingConfig()

    @property
    def is_device(self) -> bool:
        """Whether it is about a device, which runs under the guard, and not only about a run of cameras."""
        return self.delivery is not None or self.guard is not None

    @property
    def keeps_state(self) -> bool:
        """Whether a run of it has anything to keep in a state directory: what a device does, or engines."""
        return self.is_device or any("tensorrt" in model.providers for model in self.models.values())

    @property
    def takes_updates(self) -> bool:
        """Whether it takes releases that the fleet assigns."""
        return self.updates is not None and self.updates.enabled

    @property
    def injects_faults(self) -> bool:
        """Whether faults may be injected: twice said by the device's own file, for a device on a bench."""
        return self.faults is not None and self.faults.enabled and self.device.purpose == "bench"

    @property
    def guarding(self) -> GuardConfig:
        """The section `guard`, or what holds without one."""
        return self.guard or GuardConfig()

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> "NodeConfig":
        # The loader runs these checks itself, on the file's own data: it locates and lists them all.
        if not (info.context or {}).get("checked"):
            found = [
                f"{format_location(at)}: {text}" for at, text in cross_checks(self.model_dump(mode="json"))
            ]
            if found:
                raise ValueError("; ".join(found))
        return self
