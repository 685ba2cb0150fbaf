"""Stands in for TensorRT and CUDA in tests: the names of a real release, memory that is tracked, faults on demand.

    with installed("10.3.0", faults=Faults(deserialise_fails=1)) as double:
        backend = TensorRtBackend(engine, model="cars", open_device=double.open_cuda)

It executes with onnxruntime, so its numbers say nothing about TensorRT's own arithmetic, and nothing about speed.
"""

from tests.rigs.tensorrt_double.api import RELEASES
from tests.rigs.tensorrt_double.child import DoubleFolder, double_folder
from tests.rigs.tensorrt_double.cuda import DoubleCuda
from tests.rigs.tensorrt_double.device import Ledger
from tests.rigs.tensorrt_double.faults import GPUS, Faults, Gpu, Misuse
from tests.rigs.tensorrt_double.module import Double, build_engine, install, installed

__all__ = [
    "GPUS",
    "RELEASES",
    "Double",
    "DoubleCuda",
    "DoubleFolder",
    "Faults",
    "Gpu",
    "Ledger",
    "Misuse",
    "build_engine",
    "double_folder",
    "install",
    "installed",
]
