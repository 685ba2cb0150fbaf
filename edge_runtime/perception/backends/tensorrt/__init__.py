"""TensorRT: an engine's bytes become a `Backend`.

The package imports on a machine that has neither TensorRT nor a library for CUDA; both are looked for when an
engine is opened. It knows no store and builds nothing: that is what the room `engines` does.
"""

from edge_runtime.perception.backends.tensorrt._cuda import (
    Cuda,
    CudaError,
    DeviceLost,
    OutOfDeviceMemory,
    WrongThread,
    open_cuda,
)
from edge_runtime.perception.backends.tensorrt.backend import TensorRtBackend
from edge_runtime.perception.backends.tensorrt.errors import EngineRefused
from edge_runtime.perception.backends.tensorrt.plugins import PluginLibrary, PluginRefused

__all__ = [
    "Cuda",
    "CudaError",
    "DeviceLost",
    "EngineRefused",
    "OutOfDeviceMemory",
    "PluginLibrary",
    "PluginRefused",
    "TensorRtBackend",
    "WrongThread",
    "open_cuda",
]
