"""What a release for this device's GPU must fit, found without opening the GPU or importing TensorRT."""

import importlib.metadata
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.health.dpkg import installed_packages
from edge_runtime.health.jetson import SOCS
from edge_runtime.health.nvidia import read_driver
from edge_runtime.health.sysfiles import SysFiles

_LIBRARY = re.compile(r"libnvinfer\d{1,2}")
_VERSION = re.compile(r"\d+(?:\.\d+){1,3}")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_SOC = re.compile(r"nvidia,(tegra\d{3})")
_QUERY = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The GPU and what runs models on it.

    Attributes:
        compute_capability: like `8.7`; None where there is no GPU of NVIDIA, or where it is not known.
        tensorrt: version; None where it is not installed.
    """

    compute_capability: str | None
    tensorrt: str | None


def find_accelerator(clock: Clock, root: Path = Path("/")) -> Accelerator:
    """Look for it, once at a start.

    Args:
        clock: bounds the look.
        root: where proc and var lie.
    """
    files = SysFiles(root, clock)
    board = _SOC.search(files.text("/proc/device-tree/compatible").value or "")
    soc = None if board is None else SOCS.get(board[1])
    capability = None if soc is None else soc[1]
    if capability is None and read_driver(files).known:
        capability = _asked()
    return Accelerator(capability, _tensorrt(files))


def _asked() -> str | None:
    try:
        said = subprocess.run(  # noqa: S603 - a fixed command
            _QUERY, capture_output=True, text=True, timeout=_ANSWER_S, check=False, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = said.strip().splitlines()[:1]
    return first[0] if first and _CAPABILITY.fullmatch(first[0]) else None


def _tensorrt(files: SysFiles) -> str | None:
    """As Debian's records have it, with the build's number, or the wheel's metadata."""
    for version in installed_packages(files, _LIBRARY).values():
        found = _VERSION.match(version)
        if found is not None:
            return found[0]
    try:
        return importlib.metadata.version("tensorrt")
    except importlib.metadata.PackageNotFoundError:
        return None
