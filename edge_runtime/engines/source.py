"""Where engines come from on this device, and what of it they are tied to."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.engines.build import Builder, build_engine
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.machine import OpenDevice, import_tensorrt, read_machine
from edge_runtime.engines.memory import MemoryBudget, read_budget
from edge_runtime.engines.progress import OnProgress, show_nothing
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.supply import never_stop
from edge_runtime.engines.wanted import MIB
from edge_runtime.perception.backends.tensorrt import open_cuda


@dataclass(frozen=True, slots=True)
class EngineSource:
    """Where engines come from on this device.

    Attributes:
        store: keeps them.
        budget_s: how long one build may take.
        reserve_bytes: memory that must stay free after a model is loaded.
        progress: told how far a build is.
        stop: asked while an engine is waited for; True calls it off.
        open_device: opens the GPU.
        build: builds an engine and waits for it.
        root: where etc and proc lie.
    """

    store: EngineStore
    budget_s: float = 1800.0
    reserve_bytes: int = 256 * MIB
    progress: OnProgress = show_nothing
    stop: Callable[[], bool] = never_stop
    open_device: OpenDevice = open_cuda
    build: Builder = build_engine
    root: Path = Path("/")

    def look(self) -> tuple[MachineFacts, MemoryBudget]:
        """This machine, and what of its memory is free.

        Raises:
            MissingDependency: TensorRT or the library that speaks to CUDA is not installed.
            BackendError: there is no GPU that can be used.
        """
        trt = import_tensorrt(self.root)
        cuda = self.open_device()
        try:
            return read_machine(cuda, trt, root=self.root), read_budget(cuda, root=self.root)
        finally:
            cuda.close()
