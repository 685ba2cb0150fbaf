"""The double for other processes: a folder that is put first on PYTHONPATH and makes them import it.

It holds a `tensorrt` and a `cuda.bindings` that can be imported, and double.json with the release, the device and
the faults. Each process has a device of its own; when it ends it adds a line to ended.jsonl with its misuses and
leaks. A process that is killed adds none.
"""

import atexit
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tests.rigs.tensorrt_double.api import REPOSITORY, api_directory
from tests.rigs.tensorrt_double.bindings import Bindings
from tests.rigs.tensorrt_double.faults import GPUS, Faults, Gpu, read_faults
from tests.rigs.tensorrt_double.module import Double

_SETTINGS: Final = "double.json"
_ENDED: Final = "ended.jsonl"

_SHIM: Final = '''"""Stands in for {name} in tests."""
import sys
sys.path.append({repository!r})
from tests.rigs.tensorrt_double.child import shim
sys.modules[__name__] = shim({folder!r}, __name__)
'''


@dataclass(frozen=True, slots=True)
class DoubleFolder:
    """A folder for PYTHONPATH.

    Attributes:
        path: of it.
    """

    path: Path

    def environment(self, base: dict[str, str] | None = None) -> dict[str, str]:
        """A process environment in which the folder comes first."""
        found = dict(os.environ if base is None else base)
        found["PYTHONPATH"] = os.pathsep.join([str(self.path), *filter(None, [found.get("PYTHONPATH")])])
        return found

    def set_faults(self, faults: Faults) -> None:
        """For processes that begin later."""
        settings = json.loads((self.path / _SETTINGS).read_text(encoding="utf-8"))
        settings["faults"] = asdict(faults)
        (self.path / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")

    def ended(self) -> list[dict[str, Any]]:
        """What each process left: `pid`, `misuses`, `left` (what was alive), `executions`."""
        path = self.path / _ENDED
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def check(self) -> None:
        """Raises AssertionError where a process misused its device."""
        found = [text for process in self.ended() for text in process["misuses"]]
        assert not found, f"a process misused the device: {'; '.join(found)}"


def double_folder(
    path: Path, release: str = "10.3.0", *, faults: Faults | None = None, gpu: Gpu | None = None
) -> DoubleFolder:
    """Makes the folder.

    Args:
        path: where; made if it is not there.
        release: one of `api.RELEASES`.
        faults: what goes wrong in every process.
        gpu: the device of every process.
    """
    packages = {"tensorrt": "tensorrt.py", "cuda.bindings": "cuda/bindings/__init__.py"}
    for name, file in packages.items():
        target = path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _SHIM.format(name=name, repository=str(REPOSITORY), folder=str(path))
        target.write_text(text, encoding="utf-8")
    settings = {
        "release": release,
        "faults": asdict(faults or Faults()),
        "gpu": asdict(gpu or GPUS[release]),
        "shared": str(api_directory().parent),
    }
    (path / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    return DoubleFolder(path)


_made: list[tuple[Double, Bindings]] = []


def shim(folder: str, name: str) -> ModuleType:
    """The module of a name; all modules of a process show one device."""
    if not _made:
        double = _double_of(Path(folder))
        _made.append((double, Bindings(double.device)))
        atexit.register(_end, Path(folder), double)
    double, bindings = _made[0]
    if name == "tensorrt":
        return double.tensorrt
    sys.modules["cuda.bindings.driver"] = bindings.driver
    sys.modules["cuda.bindings.nvrtc"] = bindings.nvrtc
    return bindings.package


def _double_of(folder: Path) -> Double:
    settings = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
    os.environ.setdefault("EDGE_SHARED", settings["shared"])
    gpu = Gpu(**{**settings["gpu"], "compute_capability": tuple(settings["gpu"]["compute_capability"])})
    return Double(settings["release"], read_faults(settings["faults"]), gpu)


@contextmanager
def in_this_process(folder: DoubleFolder) -> Iterator[Double]:
    """What a process with the folder on its path imports, in this one: a device of its own until the block ends.

    Raises:
        Misuse: something misused the device.
    """
    double = _double_of(folder.path)
    bindings = Bindings(double.device)
    modules: dict[str, Any] = {
        "tensorrt": double.tensorrt,
        "cuda": ModuleType("cuda"),
        "cuda.bindings": bindings.package,
        "cuda.bindings.driver": bindings.driver,
        "cuda.bindings.nvrtc": bindings.nvrtc,
    }
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)
    try:
        yield double
    finally:
        double.device.release()
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)
    double.check()


def _end(folder: Path, double: Double) -> None:
    double.device.written_after_free()
    record = {
        "pid": os.getpid(),
        "misuses": double.device.misuses,
        "left": str(double.ledger()),
        "executions": double.device.count.calls.get("execution", 0),
    }
    with (folder / _ENDED).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
