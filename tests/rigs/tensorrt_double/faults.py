"""What a machine is played to be, and what goes wrong on it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final


class Misuse(AssertionError):
    """A call that a real device answers with garbage or a crash. No product code may catch it and go on."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The device that is played.

    Attributes:
        name: as CUDA says it.
        compute_capability: major, minor.
        memory_bytes: of the device; on Jetson that of the whole board.
        integrated: CPU and GPU share the memory.
        driver: version of the driver API that CUDA tells: 1000 * major + 10 * minor.
    """

    name: str = "Orin"
    compute_capability: tuple[int, int] = (8, 7)
    memory_bytes: int = 8 << 30
    integrated: bool = True
    driver: int = 12060


GPUS: Final = {
    "10.3.0": Gpu(),
    "10.13.3": Gpu("NVIDIA Thor", (11, 0), 128 << 30, integrated=True, driver=13000),
    "11.4.0": Gpu("NVIDIA H100", (9, 0), 80 << 30, integrated=False, driver=13020),
}
"""Where each release runs."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. Counts count from 1; 0 is never; a negative one is always.

    Attributes:
        deserialise_fails: how many calls of `deserialize_cuda_engine` return None.
        deserialise_lines: what the logger is told then.
        parse_fails: the ONNX parser refuses with this text.
        refused_operators: operators that the parser does not know.
        build_fails: how many builds return None.
        build_lines: what the logger is told then.
        built_by: the version that engines say they were built by; empty for the real one.
        build_seconds: how long a build takes, in steps that the progress monitor sees.
        nan_from: from this execution on, floating point outputs are NaN.
        wrong_from: from this execution on, outputs are off: floats scaled by `wrong_scale`.
        memory_bytes: less memory than the device has: allocations fail beyond it.
        lost_from: from this execution on, the device is lost: every call fails.
        hang_from: from this execution on, nothing ends until `Device.release`, or `hang_seconds` have passed.
        context_fails: how many calls of `create_execution_context` return None.
        execute_fails: how many calls of `execute_async_v3` return False.
    """

    deserialise_fails: int = 0
    deserialise_lines: tuple[str, ...] = ("IRuntime::deserializeCudaEngine: Error Code 1: Serialization",)
    parse_fails: str = ""
    refused_operators: tuple[str, ...] = ()
    build_fails: int = 0
    build_lines: tuple[str, ...] = ("IBuilder::buildSerializedNetwork: Error Code 10: Internal Error",)
    built_by: str = ""
    build_seconds: float = 0.0
    nan_from: int = 0
    wrong_from: int = 0
    wrong_scale: float = 3.0
    memory_bytes: int = 0
    lost_from: int = 0
    hang_from: int = 0
    hang_seconds: float = 30.0
    context_fails: int = 0
    execute_fails: int = 0

    def write(self, path: Path) -> None:
        """As JSON, for a child process."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read_faults(raw: dict[str, Any]) -> Faults:
    """Faults from JSON."""
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    return Faults(**given)


@dataclass(slots=True)
class Count:
    """Counts calls against a fault's number."""

    calls: dict[str, int] = field(default_factory=dict)

    def next(self, what: str) -> int:
        """The number of this call, from 1."""
        self.calls[what] = self.calls.get(what, 0) + 1
        return self.calls[what]

    def among_first(self, what: str, limit: int) -> bool:
        """Whether this call is one of the first `limit`; a negative limit is all."""
        number = self.next(what)
        return limit < 0 or number <= limit
