"""The GPU checks in their order, each with the time that it may take."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        module, function: where it is; it takes a `Bench` and returns what it saw in one sentence.
        limit_s: after so long it is ended, and has failed.
    """

    module: str
    function: str
    limit_s: float


CHECKS: Final[dict[str, Check]] = {
    "device": Check("hil.gpu.device_check", "check_device", 60),
    "kernel": Check("hil.gpu.kernel_check", "check_kernel", 60),
    "onnxruntime": Check("hil.gpu.onnxruntime_check", "check_onnxruntime", 60),
    "engine": Check("hil.gpu.engine_check", "check_engine", 260),
    "preparation": Check("hil.gpu.engine_check", "check_preparation", 60),
    "memory": Check("hil.gpu.engine_check", "check_memory", 60),
    "latency": Check("hil.gpu.latency_check", "check_latency", 90),
    "events": Check("hil.gpu.events_check", "check_events", 150),
    "swaps": Check("hil.gpu.swaps_check", "check_swaps", 300),
}
"""`engine` builds what those after it find in the store; `swaps` takes what time is left."""

TOTAL_S: Final = 580.0
"""For all of them: under ten minutes, whatever hangs."""
