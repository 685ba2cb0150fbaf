"""A bare loop around one engine against the runtime's backend with the same engine, in pairs."""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from edge_runtime.benchmark import measure_pairs
from edge_runtime.clock import SystemClock
from edge_runtime.engines.machine import import_tensorrt
from edge_runtime.perception.backends import Backend, Tensor
from edge_runtime.perception.backends.tensorrt._cuda import Cuda
from edge_runtime.qualification.subject import Subject
from hil.gpu.bench import Bench, Failed, NotPossible, median_ms, pictures

_PAIRS = 7
_PASS_MS = 1000.0
_MOST_RUNS = 200


class BareEngine:
    """Copy in, execute, copy out, wait: nothing else. Belongs to the thread that made it.

    Args:
        cuda: opened by this thread.
        engine: serialised.
        feeds: one array for each input; written once, copied in each run.
        like: a backend of the same engine, which knows the outputs' dtypes.
    """

    def __init__(self, cuda: Cuda, engine: bytes, feeds: Mapping[str, Tensor], like: Backend) -> None:
        trt = import_tensorrt()
        self._cuda, self._stream, self._event = cuda, cuda.create_stream(), cuda.create_event()
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self._engine = self._runtime.deserialize_cuda_engine(engine)
        self._context = self._engine.create_execution_context()
        self._in: list[tuple[int, Tensor]] = []
        self._out: list[tuple[int, Tensor]] = []
        for name, array in feeds.items():
            if not self._context.set_input_shape(name, array.shape):
                raise Failed(f"the engine does not take {array.shape} for its input {name}")
        for name, array in feeds.items():
            address, host = self._place(name, array.shape, array.dtype)
            host[...] = array
            self._in.append((address, host))
        for spec in like.outputs:
            shape = tuple(int(size) for size in self._context.get_tensor_shape(spec.name))
            if min(shape, default=1) < 0:
                raise NotPossible(f"the size of the output {spec.name} depends on what is seen")
            self._out.append(self._place(spec.name, shape, spec.dtype))

    def _place(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, Tensor]:
        nbytes = max(1, math.prod(shape) * dtype.itemsize)
        address = self._cuda.allocate(nbytes)
        self._context.set_tensor_address(name, address)
        return address, self._cuda.allocate_host(nbytes)[: math.prod(shape) * dtype.itemsize].view(
            dtype
        ).reshape(shape)

    def run(self) -> None:
        """One inference, awaited."""
        for address, host in self._in:
            self._cuda.copy_in(address, host, self._stream)
        if not self._context.execute_async_v3(self._stream):
            raise Failed("TensorRT does not execute the bare engine")
        for address, host in self._out:
            self._cuda.copy_out(host, address, self._stream)
        self._cuda.record(self._event, self._stream)
        self._cuda.synchronize_event(self._event)

    @property
    def results(self) -> list[Tensor]:
        """Outputs of the last run."""
        return [host.copy() for _, host in self._out]

    def close(self) -> None:
        """Free everything, the context before the engine."""
        self._context = self._engine = self._runtime = None
        for address, host in (*self._in, *self._out):
            self._cuda.free(address)
            self._cuda.free_host(host.reshape(-1).view(np.uint8))
        self._cuda.destroy_event(self._event)
        self._cuda.destroy_stream(self._stream)


def check_latency(bench: Bench) -> str:
    """The same answers, and what the runtime's thread and hand-over cost beside a bare loop."""
    with bench.device() as cuda, bench.tensorrt() as (model, report):
        stored = bench.source.store.verify(report.key)
        if stored is None:
            raise Failed("the engine that was just opened is not in the store")
        subject = Subject(model.package, model.backend)
        tensor, _ = subject.prepare(pictures()[0])
        feeds = model.feeds(np.ascontiguousarray(tensor), 1)
        bare = BareEngine(cuda, stored.engine, feeds, model.backend)
        try:
            return _compare(bench, bare, model.backend, feeds)
        finally:
            bare.close()


def _compare(bench: Bench, bare: BareEngine, backend: Backend, feeds: Mapping[str, Tensor]) -> str:
    bare.run()
    for mine, theirs in zip(bare.results, backend.infer(feeds, 60.0), strict=True):
        if not np.allclose(mine, theirs, rtol=1e-3, atol=1e-4):
            raise Failed("the runtime's outputs are not those of the bare engine")
    runs = max(3, min(_MOST_RUNS, int(_PASS_MS / median_ms(bare.run, 5))))

    def loop() -> int:
        for _ in range(runs):
            bare.run()
        return runs

    def runtime() -> int:
        for _ in range(runs):
            backend.infer(feeds, 60.0)
        return runs

    bench.values["runs_a_pass"] = runs
    bench.values["bare_ms"] = median_ms(bare.run, runs)
    bench.values["runtime_ms"] = median_ms(lambda: backend.infer(feeds, 60.0), runs)
    pairs = measure_pairs(SystemClock(), runtime, loop, _PAIRS)
    bench.values["ratio_of_rates"] = round(pairs.ratio, 4)
    bench.values["ratio_quartiles"] = f"{pairs.low:.4f} to {pairs.high:.4f}"
    bench.values["disturbed_pairs"] = pairs.disturbed
    bench.values["one_caller_fps"] = round(pairs.fps, 1)
    bench.values["two_callers_fps"] = round(_two_callers(runtime), 1)
    return f"the runtime runs the engine at {pairs.ratio:.3f} of the bare loop's rate, one run at a time"


def _two_callers(ask: Callable[[], int]) -> float:
    """Runs a second with two threads that ask: while one run computes, the next is copied in."""
    with ThreadPoolExecutor(2) as callers:
        begun = time.monotonic_ns()
        runs = sum(callers.map(lambda _: ask(), range(2)))
        return runs * 1e9 / (time.monotonic_ns() - begun)
