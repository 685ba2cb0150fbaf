"""TensorRT engines: how long one may take to build, where they are kept, and how much memory stays free."""

import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from edge_runtime.config.base import ConfigModel, Flag, Integer, PositiveSeconds, Text

_MIB = 1 << 20


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise PydanticCustomError("not_absolute", "must be a path that begins with /")
    return path


def _digest(text: str) -> str:
    if re.fullmatch(r"[0-9a-f]{64}", text) is None:
        raise PydanticCustomError("not_a_digest", "must be a SHA-256 in 64 lower-case hexadecimal digits")
    return text


class PluginConfig(ConfigModel):
    """A library with layers that TensorRT does not have: native code, which runs with all that this process may.

    Attributes:
        path: of the library on this device, absolute. Nobody but root and the runtime's user may be able to write
            it, or a folder above it.
        sha256: that it must have, 64 lower-case hexadecimal digits; another library is refused.
    """

    path: Annotated[Text, AfterValidator(_absolute)]
    sha256: Annotated[Text, AfterValidator(_digest)]


class TensorRtConfig(ConfigModel):
    """How TensorRT runs a model; means nothing where `tensorrt` is not among its providers.

    Attributes:
        prepare: `gpu` resizes and normalises frames on the GPU, `cpu` as every other backend does.
        tf32: let 32-bit layers multiply with 10 bits of mantissa, as TensorRT does by default.
        workspace_mib: memory in MiB that TensorRT may use for the scratch space of one layer.
        cuda_graphs: replay each run as one CUDA graph. Not measured on hardware yet.
        mapped: let the GPU read and write the host's memory instead of copying. Not measured on hardware yet.
        plugins: libraries with layers of this model that TensorRT does not have.
    """

    prepare: Literal["cpu", "gpu"] = "gpu"
    tf32: Flag = True
    workspace_mib: Annotated[Integer, Field(ge=16, le=65_536)] = 512
    cuda_graphs: Flag = False
    mapped: Flag = False
    plugins: Annotated[tuple[PluginConfig, ...], Field(max_length=16)] = ()

    @field_validator("plugins")
    @classmethod
    def _named_once(cls, plugins: tuple[PluginConfig, ...]) -> tuple[PluginConfig, ...]:
        names = Counter(PurePosixPath(plugin.path).name for plugin in plugins)
        if twice := [name for name, times in names.items() if times > 1]:
            raise PydanticCustomError(
                "named_twice",
                "two plugin libraries are called {name}: name it once, or rename one",
                {"name": twice[0]},
            )
        return plugins


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
