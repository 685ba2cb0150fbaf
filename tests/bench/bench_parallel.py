"""How much two bare single-threaded loops side by side gain over the best single stream: throughput mode's ceiling.

Nothing is decoded, preprocessed or followed; one session, its weights shared, is called from two threads at once.
"""

import statistics
import threading
import time
from pathlib import Path

import numpy as np

from edge_runtime.benchmark.bare import BareLoop, BareOptions
from edge_runtime.packages import ensure_weights, open_package
from edge_runtime.perception.backends import load_backend
from tests.bench.bench_runtime import CONFIGS, HERE

ROUNDS = 5
SECONDS = 1.5
STREAMS = (BareOptions(1, spinning=False), BareOptions(2, spinning=False), BareOptions(2, spinning=True))


def rate(loop: BareLoop, frames: int, threads: int = 1) -> float:
    """Frames per second of `threads` callers of one loop's session, each with so many frames."""
    callers = [threading.Thread(target=loop.run, args=(frames,)) for _ in range(threads)]
    began = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return threads * frames / (time.perf_counter() - began)


def measure(name: str, folder: Path) -> None:
    """Print one model's row: medians of interleaved rounds."""
    ensure_weights(folder)
    weights = open_package(folder).weights
    backend = load_backend(weights)
    (spec,) = backend.inputs
    backend.close()
    shape = [size if isinstance(size, int) else 1 for size in spec.shape]
    feeds = [{spec.name: np.random.default_rng(0).random(shape).astype(spec.dtype)}]
    loops = [BareLoop(weights, options, feeds) for options in STREAMS]
    for loop in loops:
        loop.run(3)
    frames = max(8, int(rate(loops[0], 6) * SECONDS))
    rounds = [(*(rate(loop, frames) for loop in loops), rate(loops[0], frames, 2)) for _ in range(ROUNDS)]
    *single, both = (statistics.median(column) for column in zip(*rounds, strict=True))
    told = ", ".join(f"{loop.options.name} {fps:.1f}" for loop, fps in zip(loops, single, strict=True))
    print(
        f"{name}: {told}; two side by side {both:.1f} frames/s, {both / max(single):.2f} of the best stream"
    )


def main() -> None:
    """Print both models."""
    for name in CONFIGS:
        measure(name, HERE / "packages" / name)


if __name__ == "__main__":
    main()
