"""A node on a thread of its own with a slot of a real status page, read as the guard reads it; broken models."""

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from edge_runtime.clock import SystemClock
from edge_runtime.config import load_config
from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.guard.page import Beat, Page, SlotWriter
from edge_runtime.health import HealthReader
from edge_runtime.node.camera import EventSink
from edge_runtime.node.models import ReadyModel, load_models
from edge_runtime.node.node import Node
from edge_runtime.perception.backends import Backend, FramePreparer, Tensor
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.sources import Image
from edge_runtime.telemetry.metrics import Metrics

ACCEPTED = ["NOASSERTION", "AGPL-3.0"]
PATIENCE_S = 30.0


class Faulty:
    """A real backend that can be told to block in a C call, to take its time, or to give what is no number.

    Attributes:
        slow_s: added to each inference. nan: whether outputs are replaced. inferences: begun so far.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.inputs, self.outputs = backend.inputs, backend.outputs
        self.facts, self.in_flight = backend.facts, backend.in_flight
        self.slow_s, self.nan, self.inferences = 0.0, False, 0
        self._blocked = False
        self._reading, self._writing = os.pipe()

    def block(self) -> None:
        """The next inference waits in the C library for what never comes; its time limit means nothing there."""
        self._blocked = True

    def unblock(self) -> None:
        """It comes after all."""
        self._blocked = False
        os.write(self._writing, b"." * 64)

    def infer(self, feeds: Mapping[str, Tensor], timeout_s: float | None = None) -> list[Tensor]:
        """As the backend, unless it is broken."""
        self.inferences += 1
        if self._blocked:
            ctypes.CDLL(None).read(self._reading, ctypes.create_string_buffer(1), 1)
        time.sleep(self.slow_s)
        outputs = self._backend.infer(feeds, timeout_s)
        return [np.full_like(output, np.nan) for output in outputs] if self.nan else outputs

    def close(self) -> None:
        """The backend is closed by whoever loaded it."""
        os.close(self._reading)
        os.close(self._writing)


class StuckPreprocessor:
    """A real preprocessor that can be told to hang."""

    def __init__(self, preprocessor: FramePreparer) -> None:
        self._preprocessor = preprocessor
        self.free = threading.Event()
        self.free.set()

    def allocate(self, batch: int) -> Tensor:
        """As the real one."""
        return self._preprocessor.allocate(batch)

    def fill(self, image: Image, out: Tensor, index: int, previous: Letterbox | None = None) -> Letterbox:
        """As the real one, once it is free."""
        self.free.wait()
        return self._preprocessor.fill(image, out, index, previous)


class StuckSink:
    """Takes events until it is told to block."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.taken = 0

    def write(self, event: object) -> bool:
        """Blocks while it is stuck."""
        self.taken += 1
        return self.free.wait()


class Watched:
    """A node that runs, and the slot into which it beats.

    Attributes:
        node: that runs. faulty: its models' backends, by name. preparing: their preprocessors.
    """

    def __init__(
        self,
        path: Path,
        models: Mapping[str, ReadyModel],
        *,
        sinks: Sequence[EventSink] = (),
        board: Path | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.faulty = {name: Faulty(ready.model.backend) for name, ready in models.items()}
        self.preparing = {name: StuckPreprocessor(ready.model.preprocessor) for name, ready in models.items()}
        broken = {
            name: replace(
                ready,
                model=replace(
                    ready.model,
                    backend=self.faulty[name],
                    preprocessor=self.preparing[name],
                ),
            )
            for name, ready in models.items()
        }
        self._page = Page(["perception"])
        self.slot = self._page.slot("perception")
        self.slot.expect(os.getpid())
        self.writer = SlotWriter(os.dup(self._page.fd), self.slot.index)
        health = None if board is None else HealthReader(SystemClock(), root=board, disks=())
        self.node = Node(
            load_config(path), broken, sinks=sinks, beats=self.writer, health=health, metrics=metrics
        )
        self.thread = threading.Thread(target=self.node.run, name="evaluator")

    @property
    def beat(self) -> Beat | None:
        """The newest."""
        return self.slot.read().beat

    @property
    def tripped(self) -> set[Condition]:
        """What it says that holds."""
        beat = self.beat
        return set() if beat is None else set(conditions_in(beat.tripped))

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something.

        Raises:
            AssertionError: it did not come.
        """
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until, f"{what} did not happen: {self.beat}"
            time.sleep(0.01)

    def until_evaluated(self) -> Beat:
        """The first beat that says what holds of all cameras."""
        self.until(lambda: self.beat is not None and self.beat.evaluated != 0, "a first frame")
        assert self.beat is not None
        return self.beat

    def beats_within(self, seconds: float) -> int:
        """How many beats come in so long."""
        before = self.beat
        time.sleep(seconds)
        after = self.beat
        return (after.sequence if after else 0) - (before.sequence if before else 0)

    def close(self) -> None:
        """End all of it."""
        for name, faulty in self.faulty.items():
            faulty.unblock()
            self.preparing[name].free.set()
        self.node.request_stop()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        self.writer.close()
        self._page.close()
        for faulty in self.faulty.values():
            faulty.close()


@contextlib.contextmanager
def watched(
    path: Path,
    models: Mapping[str, ReadyModel],
    *,
    sinks: Sequence[EventSink] = (),
    board: Path | None = None,
    metrics: Metrics | None = None,
) -> Iterator[Watched]:
    """A node that runs until the block ends; `board` is a tree that its governor takes for the machine."""
    running = Watched(path, models, sinks=sinks, board=board, metrics=metrics)
    running.thread.start()
    try:
        yield running
    finally:
        for sink in sinks:
            if isinstance(sink, StuckSink):
                sink.free.set()
        running.close()


def write_watched(
    folder: Path,
    package: Path,
    cameras: Mapping[str, Any],
    *,
    timeout: float = 10.0,
    smaller: Mapping[str, Path] | None = None,
    **more: Any,
) -> Path:
    """A configuration; cameras use the model `m` unless they say otherwise. `smaller` are further models."""
    names = {camera.get("model", "m") for camera in cameras.values()}
    model = {"package": str(package), "threads": 1, "accept_licences": ACCEPTED, "timeout": timeout}
    document = {
        "models": {
            **dict.fromkeys(sorted(names), model),
            **{name: {**model, "package": str(place)} for name, place in (smaller or {}).items()},
        },
        "cameras": {
            name: {"model": "m", "data_class": "internal", **camera} for name, camera in cameras.items()
        },
        **more,
    }
    path = folder / "watched.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@contextlib.contextmanager
def loaded_models(path: Path) -> Iterator[Mapping[str, ReadyModel]]:
    """The models of a configuration."""
    models = load_models(load_config(path))
    try:
        yield models
    finally:
        for ready in models.values():
            ready.close()
