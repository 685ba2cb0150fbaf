"""TensorRT engines: how long one may take to build, where they are kept, and how much memory stays free."""

from typing import Annotated, Literal

from pydantic import Field

from edge_runtime.config.base import ConfigModel, Flag, Integer, PositiveSeconds

_MIB = 1 << 20


class TensorRtConfig(ConfigModel):
    """How TensorRT runs a model; means nothing where `tensorrt` is not among its providers.

    Attributes:
        prepare: `gpu` resizes and normalises frames on the GPU, `cpu` as every other backend does.
        tf32: let 32-bit layers multiply with 10 bits of mantissa, as TensorRT does by default.
        workspace_mib: memory in MiB that TensorRT may use for the scratch space of one layer.
        cuda_graphs: replay each run as one CUDA graph. Not measured on hardware yet.
        mapped: let the GPU read and write the host's memory instead of copying. Not measured on hardware yet.
    """

    prepare: Literal["cpu", "gpu"] = "gpu"
    tf32: Flag = True
    workspace_mib: Annotated[Integer, Field(ge=16, le=65_536)] = 512
    cuda_graphs: Flag = False
    mapped: Flag = False


class EnginesConfig(ConfigModel):
    """TensorRT engines of this device; they are kept in `engines` in the state directory.

    Attributes:
        build_budget: seconds that the build of one engine may take. Later it is ended, and the next provider runs
            the model.
        quota_bytes: room for engines; the oldest that nobody uses go first.
        memory_reserve_mib: memory in MiB that must stay free after a model is loaded. On a Jetson it is that of the
            whole device, which processor and GPU share.
    """

    build_budget: PositiveSeconds = 1800.0
    quota_bytes: Annotated[Integer, Field(ge=64 * _MIB)] = 2048 * _MIB
    memory_reserve_mib: Annotated[Integer, Field(ge=0, le=1_048_576)] = 256
