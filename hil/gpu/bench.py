"""What the GPU checks share: the device, the model, pictures, and why something cannot be done here."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from edge_runtime.engines.request import TensorRtOptions, TensorRtReport, TensorRtRequest
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.tensorrt_model import open_tensorrt
from edge_runtime.errors import BackendError, MissingDependency
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, open_cuda
from edge_runtime.perception.model import LoadedModel
from edge_runtime.qualification.scenes import reference_scenes
from edge_runtime.sources.frame import Image
from edge_runtime.state import StateDirectory
from hil.gpu.report import Value

MIB: Final = 1 << 20

_NODES: Final = ("nvidia0", "nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu")
"""In /dev where there is a GPU: the first on a computer with a card, the others on a Jetson."""


class NotPossible(Exception):
    """A part or the GPU is missing, so the check says nothing; the text says what."""


class Failed(Exception):
    """The check did not hold; the text says what was seen."""


@dataclass
class Bench:
    """Where a check works, and what it tells.

    Attributes:
        out: folder of the results; holds the state directory too.
        package: of the model that is run.
        swaps: models loaded and closed one after another.
        frames: of the demo that are looked at.
        build_s: seconds that the build of an engine may take.
        open_device: opens the GPU.
        on_gpu: set by the check as soon as something of it ran on a GPU.
        values: what was measured, with the unit in the name.
    """

    out: Path
    package: Path
    swaps: int = 1000
    frames: int = 300
    build_s: float = 240.0
    open_device: Callable[[], Cuda] = open_cuda
    on_gpu: bool = False
    values: dict[str, Value] = field(default_factory=dict)

    def open_model(self) -> ModelPackage:
        """The package, verified."""
        return open_package(self.package)

    @property
    def state(self) -> StateDirectory:
        """Where a runtime keeps its engines in this run."""
        return StateDirectory(self.out.absolute() / "state")

    @property
    def source(self) -> EngineSource:
        """Where engines come from in this run."""
        return EngineSource(
            EngineStore(self.state.engines), budget_s=self.build_s, open_device=self.open_device
        )

    @contextmanager
    def device(self) -> Iterator[Cuda]:
        """The GPU, opened for this thread; it stays open while the check runs.

        Raises:
            NotPossible: there is no GPU, or no library that speaks to CUDA.
            Failed: there is a GPU, and it does not open.
        """
        try:
            cuda = self.open_device()
        except MissingDependency as error:
            raise NotPossible(str(error)) from error
        except BackendError as error:
            if has_gpu():
                raise Failed(f"there is a GPU, but CUDA does not open it: {error}") from error
            raise NotPossible(f"there is no GPU: {error}") from error
        try:
            yield cuda
        finally:
            cuda.close()

    @contextmanager
    def tensorrt(
        self, options: TensorRtOptions | None = None
    ) -> Iterator[tuple[LoadedModel, TensorRtReport]]:
        """The model on TensorRT, by the runtime's own way: store, build, memory plan, golden vectors.

        Raises:
            NotPossible: TensorRT is not installed.
            BackendError: the model cannot be had on TensorRT.
        """
        report = TensorRtReport()
        try:
            request = TensorRtRequest(self.open_model(), "check", options or TensorRtOptions())
            model = open_tensorrt(request, self.source, report)
        except MissingDependency as error:
            raise NotPossible(str(error)) from error
        try:
            self.on_gpu = True
            yield model, report
        finally:
            model.close()


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Whether the system shows a GPU of NVIDIA's, be CUDA there or not."""
    return any((devices / name).exists() for name in _NODES)


def pictures() -> list[Image]:
    """Drawn scenes whose contents are known, (480, 640, 3), and one in the shape of a full-HD camera."""
    drawn = [scene.image for scene in reference_scenes()]
    return [*drawn, np.tile(drawn[-1], (3, 3, 1))[:1080, :1920]]


def noise(height: int, width: int, channels: int = 3) -> Image:
    """A picture that hides no mistake."""
    return np.random.default_rng(height * 10_007 + width).integers(
        0, 256, (height, width, channels), np.uint8
    )


def median_ms(work: Callable[[], object], times: int) -> float:
    """Median duration in milliseconds; the first run warms up and is left out."""
    work()
    taken = []
    for _ in range(times):
        begun = time.monotonic_ns()
        work()
        taken.append((time.monotonic_ns() - begun) / 1e6)
    return round(statistics.median(taken), 4)


def growth(samples: Sequence[int], settle: float = 0.1) -> int:
    """By how much a series grew: median of its last tenth less that of the tenth after it settled."""
    kept = samples[int(len(samples) * settle) :]
    tenth = max(1, len(kept) // 10)
    return round(statistics.median(kept[-tenth:]) - statistics.median(kept[:tenth]))


def resident_bytes() -> int:
    """Memory of this process in the machine's RAM."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096
