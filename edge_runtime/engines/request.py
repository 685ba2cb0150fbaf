"""What is asked of TensorRT for one model, and what it took."""

from dataclasses import dataclass, field
from typing import Literal

from edge_runtime.engines.holds import Role
from edge_runtime.engines.memory import MemoryPlan
from edge_runtime.engines.supply import SupplyReport
from edge_runtime.engines.wanted import EngineOptions
from edge_runtime.packages import ModelPackage


@dataclass(frozen=True, slots=True)
class TensorRtOptions:
    """How TensorRT runs a model.

    Attributes:
        engine: what decides what the engine is.
        prepare: where frames are resized and normalised.
        cuda_graphs, mapped: see `TensorRtBackend`.
    """

    engine: EngineOptions = field(default_factory=EngineOptions)
    prepare: Literal["cpu", "gpu"] = "gpu"
    cuda_graphs: bool = False
    mapped: bool = False


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Instead of the package's own.

    Attributes:
        score: at which a box is decoded.
        nms_iou: above which two boxes are duplicates.
    """

    score: float | None = None
    nms_iou: float | None = None


@dataclass(frozen=True, slots=True)
class TensorRtRequest:
    """A model that is to run on TensorRT.

    Attributes:
        package: verified.
        name: of the model in the configuration.
        options: how TensorRT runs it.
        thresholds: instead of the package's.
        role: in which the model holds the engine in the store; None where it does not.
    """

    package: ModelPackage
    name: str
    options: TensorRtOptions = field(default_factory=TensorRtOptions)
    thresholds: Thresholds = field(default_factory=Thresholds)
    role: Role | None = Role.RUNNING


@dataclass
class TensorRtReport:
    """What it took to open a model.

    Attributes:
        supply: how the engine was got.
        key: of the engine; empty where none was asked for.
        plan: of the memory.
        exchange: of the memory for this model and one like it beside it, which an exchange of models takes.
    """

    supply: SupplyReport = field(default_factory=SupplyReport)
    key: str = ""
    plan: MemoryPlan | None = None
    exchange: MemoryPlan | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What runs, and a person should know all the same."""
        if self.exchange is None or self.exchange.fits:
            return ()
        return (f"no room to exchange the model while it runs: {self.exchange.sentence}",)
