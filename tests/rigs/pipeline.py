"""An accelerator and cameras behind the runtime's own interfaces, so that timing faults can be chosen."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edge_runtime.clock import SystemClock
from edge_runtime.errors import BackendError
from edge_runtime.perception.backends import BackendFacts, InferenceTimeout, Tensor, TensorSpec
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.pipeline.outcome import Outcome
from edge_runtime.sources.frame import Frame

SIDE = 8


def make_frame(source: str, sequence: int, *, capture_ns: int | None = None, dark: bool = False) -> Frame:
    """A tiny frame whose pixels carry its sequence number."""
    image = np.full((SIDE, SIDE, 3), sequence % 256, np.uint8)
    now = SystemClock().monotonic_ns() if capture_ns is None else capture_ns
    return Frame(image, source, 0, sequence, now, sequence * 1_000_000, dark=dark)


class Supply:
    """A camera that the test feeds by hand: `live` keeps the newest frame only."""

    def __init__(self, name: str, *, live: bool = False) -> None:
        self.name = name
        self.live = live
        self.superseded = 0
        self._frames: deque[Frame] = deque()
        self._ended = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def put(self, *frames: Frame) -> None:
        with self._lock:
            for frame in frames:
                if self.live and self._frames:
                    self._frames.clear()
                    self.superseded += 1
                self._frames.append(frame)
        self._notify()

    def end(self) -> None:
        self._ended = True
        self._notify()

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()

    @property
    def finished(self) -> bool:
        with self._lock:
            return self._ended and not self._frames

    def waiting(self) -> int | None:
        with self._lock:
            return self._frames[0].capture_ns if self._frames else None

    def poll(self) -> Frame | None:
        with self._lock:
            return self._frames.popleft() if self._frames else None

    def on_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)


class Accelerator:
    """Returns its input; each run takes what `duration_s` says, or fails as `fault` says."""

    def __init__(
        self, *, in_flight: int | None = None, duration_s: Callable[[int], float] | None = None
    ) -> None:
        self.inputs = (TensorSpec("images", np.dtype(np.float32), (None, 3, SIDE, SIDE)),)
        self.outputs = self.inputs
        self.facts = BackendFacts("simulated", "1", ("cpu",), "cpu")
        self.in_flight = in_flight
        self.fault: Callable[[int], BaseException | None] = lambda run: None
        self.runs = 0
        self.batches: list[int] = []
        self.running = 0
        self.most_in_flight = 0
        self._duration_s = duration_s or (lambda run: 0.0)
        self._lock = threading.Lock()

    def infer(self, feeds: Mapping[str, Tensor], timeout_s: float | None = None) -> list[Tensor]:
        images = feeds["images"]
        with self._lock:
            run = self.runs
            self.runs += 1
            self.running += 1
            self.most_in_flight = max(self.most_in_flight, self.running)
            self.batches.append(len(images))
        try:
            duration = self._duration_s(run)
            if timeout_s is not None and duration > timeout_s:
                time.sleep(timeout_s)
                raise InferenceTimeout(f"the model did not answer within {timeout_s} s")
            time.sleep(duration)
            fault = self.fault(run)
            if fault is not None:
                raise fault
            return [images.copy()]
        finally:
            with self._lock:
                self.running -= 1

    def close(self) -> None:
        return


class CopyPreprocessor:
    """Writes the pixel value into the tensor."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def allocate(self, batch: int) -> Tensor:
        return np.zeros((batch, 3, SIDE, SIDE), np.float32)

    def fill(self, image: Any, out: Tensor, index: int, previous: Letterbox | None) -> Letterbox:
        out[index] = image[0, 0, 0]
        return Letterbox(SIDE, SIDE, SIDE, SIDE, 0, 0, SIDE, SIDE)


def read_back(outputs: list[Tensor], index: int, geometry: Letterbox) -> Detections:
    """One detection whose label is the pixel value; a pixel of 255 is a model that gives NaN."""
    value = int(outputs[0][index, 0, 0, 0])
    if value == 255:
        return Detections.empty(nonfinite=3)
    return Detections(
        np.array([[0, 0, 4, 4]], np.float32), np.array([0.9], np.float32), np.array([value], np.int64)
    )


@dataclass
class SimulatedModel:
    """Quacks like LoadedModel around an `Accelerator`."""

    backend: Accelerator
    capacity: int = 1
    postprocessor: Any = field(default=read_back)
    preprocessor: CopyPreprocessor = field(init=False)
    manifest: Any = field(init=False)

    def __post_init__(self) -> None:
        self.preprocessor = CopyPreprocessor(self.capacity)
        self.manifest = type("M", (), {"name": "simulated", "input": type("I", (), {"batch": self.capacity})})

    def feeds(self, tensor: Tensor, frames: int) -> Mapping[str, Tensor]:
        return {"images": tensor[:frames]}


class Recorder:
    """A consumer that keeps every outcome."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.taken_ns: list[int] = []
        self.ticks = 0
        self.delay_s = 0.0

    def take(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.taken_ns.append(SystemClock().monotonic_ns())
        if self.delay_s:
            time.sleep(self.delay_s)

    def tick(self) -> None:
        self.ticks += 1


__all__ = ["Accelerator", "BackendError", "Recorder", "SimulatedModel", "Supply", "make_frame"]
