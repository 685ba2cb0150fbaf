"""What an engine is tied to on this machine: TensorRT to its build number, the GPU, the release of the board."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_runtime.clock import SystemClock
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.health.dpkg import installed_packages
from edge_runtime.health.jetson import is_jetson, read_l4t
from edge_runtime.health.nvidia import read_driver
from edge_runtime.health.sysfiles import SysFiles
from edge_runtime.perception.backends.tensorrt import Cuda
from edge_runtime.perception.backends.tensorrt.runtime import import_tensorrt, missing_tensorrt

OpenDevice = Callable[[], Cuda]
"""Opens the GPU for the thread that calls it."""

_LIBRARY = re.compile(r"libnvinfer\d{1,2}")
_BUILD = re.compile(r"\d+(?:\.\d+){3}")


def tensorrt_version(trt: Any, root: Path = Path("/")) -> str:
    """The full version of the installed TensorRT, with its build number where that is known.

    An engine needs the exact build; the module of a Jetson names three parts only, and Debian's records know the
    fourth.

    Args:
        trt: the module.
        root: where var lies.
    """
    said = str(trt.__version__)
    if said.count(".") >= 3:
        return said
    installed = installed_packages(SysFiles(root, SystemClock()), _LIBRARY).values()
    builds = [build[0] for version in installed if (build := _BUILD.match(version)) is not None]
    return next((build for build in builds if build.startswith(f"{said}.")), said)


def read_machine(cuda: Cuda, trt: Any, *, root: Path = Path("/")) -> MachineFacts:
    """The facts of this machine, as an opened device and the module tell them.

    Args:
        cuda: opened by this thread.
        trt: the module.
        root: where etc, proc and var lie.
    """
    files = SysFiles(root, SystemClock())
    jetson = is_jetson(files)
    major, minor = cuda.compute_capability
    return MachineFacts(
        gpu=cuda.device_name,
        sm=f"{major}.{minor}",
        tensorrt=tensorrt_version(trt, root),
        l4t=read_l4t(files).value if jetson else None,
        driver=None if jetson else read_driver(files).value,
    )


__all__ = ["OpenDevice", "import_tensorrt", "missing_tensorrt", "read_machine", "tensorrt_version"]
