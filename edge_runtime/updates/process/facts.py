"""What this device is, as far as a release must fit it: read once at the start, by files alone."""

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from edge_runtime import __version__
from edge_runtime.clock import Clock
from edge_runtime.health import HealthReader, read_health
from edge_runtime.health.jetson import is_jetson, read_l4t
from edge_runtime.health.sysfiles import SysFiles
from edge_runtime.protocol.update import DeviceFacts

GENERIC = "generic"
_COMPATIBLE = "proc/device-tree/compatible"
_MOST_NAMES = 16
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,:+/-]{0,127}")


def device_facts(
    clock: Clock,
    names: Sequence[str] = (),
    *,
    compute_capability: str | None = None,
    tensorrt: str | None = None,
    root: Path = Path("/"),
) -> DeviceFacts:
    """The facts of this machine.

    Args:
        clock: bounds the look.
        names: that its configuration gives it.
        compute_capability: of its GPU; None where there is none, or where it is not known.
        tensorrt: version of TensorRT; None where there is none.
        root: where sys and proc lie.
    """
    files = SysFiles(root, clock)
    memory = read_health(HealthReader(clock, root, disks=())).memory.total_bytes.value
    found = [name for name in (*names, *_compatible(root)) if _WORD.fullmatch(name)]
    hardware = tuple(dict.fromkeys(found))[: _MOST_NAMES - 1]
    return DeviceFacts(
        hardware=(*hardware, GENERIC),
        architecture=platform.machine() or "unknown",
        compute_capability=_word(compute_capability),
        l4t=_word(read_l4t(files).value) if is_jetson(files) else None,
        tensorrt=_word(tensorrt),
        runtime=__version__,
        memory_mb=0 if memory is None else memory >> 20,
    )


def _compatible(root: Path) -> list[str]:
    """The board's own names, `nvidia,p3768-0000+p3767-0000`, the most exact one first."""
    try:
        said = (root / _COMPATIBLE).read_bytes()[:4096]
    except OSError:
        return []
    return [name for name in said.decode("ascii", errors="replace").split("\0") if name]


def _word(text: str | None) -> str | None:
    return text if text is not None and _WORD.fullmatch(text) else None
