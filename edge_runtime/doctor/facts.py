"""What the doctor found on a machine, as one frozen record that can be printed, kept and judged elsewhere.

A value that could not be found is null, and `unknown` says why, by the path of the value (`jetson.power_mode`).
A number or a name that nobody read would hide a fault or raise a false one (jetson_stats #885, #863).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from edge_runtime.errors import ConfigError

_LONGEST = 240

_Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ComputerFacts(_Record):
    """The computer and the Python that runs the doctor.

    Attributes:
        model: as the device tree or the firmware names it.
        architecture: `aarch64` or `x86_64`.
        system: name and version of the distribution.
        kernel: its release.
        python: version of this interpreter.
        system_python: major and minor of /usr/bin/python3, like `3.10`; apt's modules are built for it.
        virtual_environment: whether this interpreter lives in one.
        system_site_packages: whether that environment sees apt's modules.
        processors: that are online.
    """

    model: str | None
    architecture: str | None
    system: str | None
    kernel: str | None
    python: str | None
    system_python: str | None
    virtual_environment: bool
    system_site_packages: bool | None
    processors: _Count | None


class JetsonFacts(_Record):
    """What only a Jetson has.

    Attributes:
        l4t: release of the board support, like `36.4.3`.
        soc: `tegra234` (Orin), `tegra264` (Thor).
        jetpack: version of apt's meta package, like `6.2.1+b38`.
        power_mode: name of the mode that is set.
        power_modes: number of each mode by its name.
    """

    l4t: str | None
    soc: str | None
    jetpack: str | None
    power_mode: str | None
    power_modes: Mapping[str, _Count]


class GpuFacts(_Record):
    """The first NVIDIA GPU.

    Attributes:
        compute_capability: like `8.7`.
        driver: version of its driver.
        memory_bytes: of its own; null where it shares the processors' memory.
    """

    name: str | None
    compute_capability: str | None
    driver: str | None
    memory_bytes: _Count | None


class CudaFacts(_Record):
    """The CUDA toolkit.

    Attributes:
        version: like `12.6`.
        nvcc: path of the compiler.
        nvrtc: name of the library that compiles kernels at run time.
    """

    version: str | None
    nvcc: str | None
    nvrtc: str | None


class ModuleFacts(_Record):
    """A Python module that is installed.

    Attributes:
        version: by its metadata.
        visible: whether this interpreter finds it; otherwise it lies in the system's folders only.
        system: whether it comes from the system's folders (apt), not from pip.
    """

    version: str | None
    visible: bool
    system: bool


class VideoFacts(_Record):
    """GStreamer and its elements.

    Attributes:
        gstreamer: its version.
        elements: whether each element that was asked for is there.
    """

    gstreamer: str | None
    elements: Mapping[str, bool]


class ClockFacts(_Record):
    """MHz of the processors, or of a GPU: now, the most that is allowed now, the most that the hardware has."""

    now_mhz: float | None
    allowed_mhz: float | None
    highest_mhz: float | None


class MemoryFacts(_Record):
    """Bytes of RAM."""

    total_bytes: _Count | None
    available_bytes: _Count | None


class DiskFacts(_Record):
    """The file system of the state directory, or of the folder in which it would be made."""

    path: str
    total_bytes: _Count | None
    free_bytes: _Count | None
    read_only: bool | None


class ConfigurationFacts(_Record):
    """What a configuration asks of the machine.

    Attributes:
        path: as given.
        providers: of each model, in order of preference.
        sources: kinds of the cameras' sources.
        elements: GStreamer elements that its pipelines name.
        is_device: whether it has a guard or delivery, and so a state directory.
    """

    path: str
    providers: Mapping[str, tuple[str, ...]]
    sources: tuple[str, ...]
    elements: tuple[str, ...]
    is_device: bool


class ModelFacts(_Record):
    """What became of opening one configured model; text that does not apply is empty.

    Attributes:
        requested: providers in order of preference.
        effective: the one that ran the model.
        backend, version: of the library behind it.
        degraded: why it is not the first one that was asked for.
        error: why the model did not open at all.
        seconds: that it took.
    """

    requested: tuple[str, ...]
    effective: str = ""
    backend: str = ""
    version: str = ""
    degraded: str = ""
    error: str = ""
    seconds: float = Field(ge=0)


class Facts(_Record):
    """Everything.

    Attributes:
        jetson: null on any other machine.
        gpu: null where no NVIDIA GPU shows itself.
        packages: versions of the apt packages that matter, by name; what is not installed is not there.
        modules: Python modules that matter, by the name of their distribution.
        clocks: of `cpu` (its fastest processors) and of each GPU that the kernel shows; none where it shows none.
        clock_synced: whether the kernel says that the wall clock is synchronised.
        configuration: null without one.
        models: by name in the configuration.
        unknown: path of each null, and the reason.
    """

    machine: ComputerFacts
    jetson: JetsonFacts | None
    gpu: GpuFacts | None
    cuda: CudaFacts
    packages: Mapping[str, str]
    modules: Mapping[str, ModuleFacts]
    video: VideoFacts
    clocks: Mapping[str, ClockFacts]
    clock_synced: bool | None
    memory: MemoryFacts
    disk: DiskFacts
    configuration: ConfigurationFacts | None
    models: Mapping[str, ModelFacts]
    unknown: Mapping[str, str]

    def sees(self, module: str) -> bool:
        """Whether this interpreter finds a module, by the name of its distribution."""
        return module in self.modules and self.modules[module].visible

    @model_validator(mode="after")
    def _every_null_has_its_reason(self) -> "Facts":
        nulls = set(null_paths(self.model_dump(exclude={"unknown"})))
        if unexplained := sorted(nulls - set(self.unknown)):
            raise ValueError(f"{unexplained[0]} is null without a reason under unknown")
        if idle := sorted(set(self.unknown) - nulls):
            raise ValueError(f"unknown gives a reason for {idle[0]}, which is not null")
        return self


def null_paths(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all nulls in plain data, the names joined by dots."""
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from null_paths(item, f"{path}.{name}" if path else str(name))


class _Recorded(BaseModel):
    """A file that `doctor --json` wrote, or a set of facts from elsewhere; `findings` are judged anew."""

    model_config = ConfigDict(extra="ignore")

    facts: Facts


def read_facts(text: str) -> Facts:
    """Facts out of the text of a file that `edge-runtime doctor --json` wrote.

    Raises:
        ConfigError: it is no such text.
    """
    try:
        return _Recorded.model_validate_json(text).facts
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        told = " ".join(f"{where}: {first['msg']}".split())[:_LONGEST]  # names out of the file stand in it
        raise ConfigError(f"these are not facts that `edge-runtime doctor --json` printed: {told}") from None
