"""What an engine is tied to on this machine: TensorRT to its build number, the GPU, the release of the board."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from edge_runtime.clock import SystemClock
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.errors import MissingDependency
from edge_runtime.health.jetson import is_jetson, read_jetson
from edge_runtime.health.sysfiles import SysFiles
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, open_cuda

MISSING_TENSORRT: Final = (
    "TensorRT is not installed here: on a Jetson `apt install python3-libnvinfer` and a virtual environment with "
    "--system-site-packages"
)

_DPKG = Path("/var/lib/dpkg/status")
_PACKAGE = re.compile(r"^Package: libnvinfer\d+\n(?:.+\n)*?Version: ([0-9.]+)", re.MULTILINE)


def import_tensorrt() -> Any:
    """The module `tensorrt`.

    Raises:
        MissingDependency: it is not installed, or a library that it needs is not.
    """
    try:
        import tensorrt  # noqa: PLC0415 - a machine without it runs models by ONNX Runtime
    except ImportError as error:
        if getattr(error, "name", None) == "tensorrt":
            raise MissingDependency(MISSING_TENSORRT) from None
        raise MissingDependency(f"TensorRT is installed but cannot be imported: {error}") from error
    return tensorrt


def tensorrt_version(trt: Any, dpkg: Path = _DPKG) -> str:
    """The full version of the installed TensorRT, with its build number where that is known.

    An engine needs the exact build; the module of a Jetson names three parts only, and Debian's records know the
    fourth.

    Args:
        trt: the module.
        dpkg: Debian's record of what is installed.
    """
    said = str(trt.__version__)
    if said.count(".") >= 3:
        return said
    try:
        found = _PACKAGE.search(dpkg.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return said
    return found.group(1) if found is not None and found.group(1).startswith(f"{said}.") else said


def read_machine(cuda: Cuda, trt: Any, *, root: Path = Path("/"), dpkg: Path = _DPKG) -> MachineFacts:
    """The facts of this machine, as an opened device and the module tell them.

    Args:
        cuda: opened by this thread.
        trt: the module.
        root: where etc and proc lie.
        dpkg: Debian's record of what is installed.
    """
    files = SysFiles(root, SystemClock())
    major, minor = cuda.compute_capability
    return MachineFacts(
        gpu=cuda.device_name,
        sm=f"{major}.{minor}",
        tensorrt=tensorrt_version(trt, dpkg),
        l4t=read_jetson(files).l4t.value if is_jetson(files) else None,
        driver=_driver(files),
    )


def _driver(files: SysFiles) -> str | None:
    """Version of the kernel's driver; on a Jetson it is part of L4T."""
    if is_jetson(files):
        return None
    text = files.text("/proc/driver/nvidia/version").value or ""
    found = re.search(r"Kernel Module.*?\s([0-9]+\.[0-9]+(?:\.[0-9]+)*)\s", text)
    return None if found is None else found.group(1)


OpenDevice = Callable[[], Cuda]

__all__ = [
    "MISSING_TENSORRT",
    "OpenDevice",
    "import_tensorrt",
    "open_cuda",
    "read_machine",
    "tensorrt_version",
]
