"""How a model is run on this machine: how many runs at once, with how many threads each."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from edge_runtime.perception.backends import Backend


@dataclass(frozen=True, slots=True)
class Execution:
    """Chosen on purpose, never left to a library's default.

    Attributes:
        mode: `latency` runs one inference at a time; `throughput` several in parallel on shared weights.
        workers: inferences in flight.
        threads: intra-op threads of each.
    """

    mode: Literal["latency", "throughput"]
    workers: int
    threads: int


def usable_cores() -> int:
    """Cores that this process may run on, not those of the machine."""
    return len(os.sched_getaffinity(0))


def fewest_in_flight(wanted: int, backends: Iterable[Backend]) -> int:
    """How many runs at once every one of `backends` allows, at most `wanted`."""
    return min([wanted, *(backend.in_flight for backend in backends if backend.in_flight is not None)])


def choose_execution(
    mode: Literal["auto", "latency", "throughput"], threads: int, *, every_frame: bool, cores: int
) -> Execution:
    """Resolve a model's configuration.

    Args:
        mode: as configured; `auto` is throughput where `every_frame` holds.
        threads: intra-op threads as configured; 0 means all cores for latency, one for throughput.
        every_frame: whether all sources of the model are recordings taken frame by frame.
        cores: cores that may be used.

    Several single-threaded runs gave 1.35 (yolov8n 640) and 1.14 (yolox_nano 416) times the frames of the best
    single stream on two cores; one live camera gains nothing from them but latency.
    """
    resolved: Literal["latency", "throughput"]
    resolved = ("throughput" if every_frame else "latency") if mode == "auto" else mode
    if resolved == "latency":
        return Execution("latency", 1, threads or cores)
    per_run = threads or 1
    return Execution("throughput", max(1, cores // per_run), per_run)
