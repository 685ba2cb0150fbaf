"""`python -m edge_runtime.node.hot_swap.trial_process FD`: opens a candidate, proves it, shows it frames.

A process of its own, because a package that nobody has run yet may crash, hang or take all memory, and because its
threads have to stand behind those of the cameras: Linux lets no ordinary process raise a thread's priority again.
"""

import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import cv2
import numpy as np

from edge_runtime.engines.build_process import stand_back
from edge_runtime.engines.opening import ModelOptions, OpenedModel, open_model
from edge_runtime.engines.request import Thresholds
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.wanted import MIB
from edge_runtime.errors import BackendError, DecodeError, EdgeRuntimeError
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.node.engines import tensorrt_options
from edge_runtime.node.hot_swap.fitness import why_not
from edge_runtime.node.hot_swap.patience import run_s
from edge_runtime.node.hot_swap.trial_records import (
    MAX_LINE_BYTES,
    Saw,
    Shown,
    TrialOpened,
    TrialRecord,
    TrialRequest,
)
from edge_runtime.packages import open_package
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.model import LoadedModel
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.qualification.golden_check import golden_problems
from edge_runtime.qualification.outputs import nonfinite_outputs
from edge_runtime.qualification.scenes import scene
from edge_runtime.qualification.subject import Subject
from edge_runtime.sources.frame import Image

_TIMED: Final = 9
"""Runs of the model in use by which the candidate is measured; the first two are not counted."""

NICE: Final = 10
"""A tenth of one core where the cameras take all they can get. At 19 it would be a sixtieth, and to open a model
on such a device would take minutes."""

_SCENE: Final = "street"
_FIRST_TO_GO: Final = "1000"


def main(arguments: list[str]) -> int:
    """Try until the other end is closed; the exit code is 0 but for a wrong command line."""
    if len(arguments) != 1 or not arguments[0].isdecimal():
        sys.stderr.write("usage: python -m edge_runtime.node.hot_swap.trial_process FD\n")
        return 2
    die_with_parent()
    leave_no_core()
    stand_back(NICE)
    _be_first_to_go()
    cv2.setNumThreads(1)
    with socket.socket(fileno=int(arguments[0])) as line, line.makefile("rb") as reading:
        request = TrialRequest.model_validate_json(reading.readline(MAX_LINE_BYTES), strict=False)
        opened = _open(request)
        if isinstance(opened, TrialOpened):
            _say(line, opened)
            return 0
        model, told = opened
        _say(line, told)
        # while it is shown frames it is not stopped
        looking = Looking(model, request.settings.score, run_s(1.0, on_cpu=told.on_cpu))
        before_ns = time.process_time_ns()
        for image in _frames(reading):
            saw, now_ns = looking.look(image), time.process_time_ns()
            _say(line, saw.model_copy(update={"used_ms": (now_ns - before_ns) / 1e6}))
            before_ns = now_ns
        model.close()
    return 0


def _be_first_to_go() -> None:
    """Where memory runs out, the kernel takes this process and not the one with the cameras."""
    try:
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    except OSError:
        return  # a system without it decides by size


def _say(line: socket.socket, record: TrialRecord) -> None:
    line.sendall(record.model_dump_json().encode() + b"\n")


def _frames(reading: BinaryIO) -> Iterator[Image]:
    while header := reading.readline(MAX_LINE_BYTES):
        shown = Shown.model_validate_json(header)
        length = shown.height * shown.width * 3
        data = reading.read(length)
        if len(data) < length:
            return
        yield np.frombuffer(data, np.uint8).reshape(shown.height, shown.width, 3)


# ---- opening


def _open(request: TrialRequest) -> tuple[LoadedModel, TrialOpened] | TrialOpened:
    """The candidate and what is told of it, or why it is refused."""
    running_ms = _time_running(request)
    try:
        opened = _open_package(request, request.package, request.settings.score)
    except EdgeRuntimeError as error:
        return _refused(why_not(error), str(error))
    model = opened.model
    facts = model.backend.facts
    if facts.effective != request.effective:
        why = facts.degraded or f"{facts.effective} runs it, and {request.effective} the model in use"
        return _refused(UpdateCode.ENGINE_BUILD if _built(request) else UpdateCode.LOAD, why)
    try:
        problem = _first_problem(model, _run_s(request))
    except EdgeRuntimeError as error:
        return _refused(UpdateCode.GOLDEN_VECTORS, str(error))
    if problem is not None:
        return _refused(UpdateCode.GOLDEN_VECTORS, problem)
    return model, TrialOpened(
        package=model.package.digest,
        labels=model.manifest.labels,
        on_cpu=facts.effective == "cpu",
        running_ms=running_ms,
    )


def _run_s(request: TrialRequest) -> float:
    """How long one run may take while the process is opened."""
    return run_s(request.share, on_cpu=request.effective == "cpu")


def _built(request: TrialRequest) -> bool:
    return request.effective == "tensorrt"


def _refused(code: UpdateCode, text: str) -> TrialOpened:
    return TrialOpened(code=code, text=" ".join(text.split())[:300])


def _open_package(request: TrialRequest, folder: Path, score: float | None) -> OpenedModel:
    package = open_package(folder)
    settings, engines = request.settings, request.engines
    source = EngineSource(
        EngineStore(request.engine_folder, quota_bytes=engines.quota_bytes),
        budget_s=engines.build_budget,
        reserve_bytes=engines.memory_reserve_mib * MIB,
    )
    deployed = package.manifest.thresholds.score if score is None else score
    options = ModelOptions(
        providers=settings.providers,
        require_gpu=settings.require_gpu,
        threads=1,
        thresholds=Thresholds(deployed, settings.nms_iou),
        tensorrt=tensorrt_options(settings, request.batch),
        first_run_s=_run_s(request),
    )
    return open_model(package, options, source, name=request.name, holds=False)


def _first_problem(model: LoadedModel, timeout_s: float) -> str | None:
    """What its golden vectors find, or without any what a picture does; None where all is well."""
    subject = Subject(model.package, model.backend, timeout_s)
    problems = list(golden_problems(subject))
    if not model.manifest.golden:
        outputs, _ = subject.show(scene(_SCENE).image)
        problems = list(nonfinite_outputs(outputs, _SCENE))
    return next((problem.text for problem in problems if problem.severity == "error"), None)


def _time_running(request: TrialRequest) -> float | None:
    """Median time of the model in use, alone in this process; None where it cannot be opened here."""
    try:
        model = _open_package(request, request.running, None).model
    except EdgeRuntimeError:
        return None
    try:
        looking = Looking(model, None, _run_s(request))
        taken = [looking.look(scene(_SCENE).image).ms for _ in range(_TIMED)]
    finally:
        model.close()
    known = [ms for ms in taken[2:] if ms is not None]
    return statistics.median(known) if known else None


# ---- looking


class Looking:
    """A model that looks at one frame at a time, in this thread.

    Args:
        model: loaded.
        score: at which its detections count; None for that of its package.
        timeout_s: that one run may take, on the clock.
    """

    def __init__(self, model: LoadedModel, score: float | None, timeout_s: float) -> None:
        self._model, self._timeout_s = model, timeout_s
        self._score = model.manifest.thresholds.score if score is None else score
        self._tensor: Tensor = model.preprocessor.allocate(1)
        self._geometry: Letterbox | None = None
        # one thread computes: its processor time is not longer for others that run meanwhile
        on_cpu = model.backend.facts.effective == "cpu"
        self._now: Callable[[], int] = time.thread_time_ns if on_cpu else time.monotonic_ns

    def look(self, image: Image) -> Saw:
        """Look at a frame."""
        model = self._model
        geometry = self._geometry = model.preprocessor.fill(image, self._tensor, 0, self._geometry)
        begun = self._now()
        try:
            outputs = model.backend.infer(model.feeds(self._tensor, 1), self._timeout_s)
            ms = (self._now() - begun) / 1e6
            found = model.postprocessor(outputs, 0, geometry)
        except (BackendError, DecodeError):
            return Saw(unanswered=True)
        kept = found.select(found.score >= self._score)
        return Saw(
            xyxy=tuple(tuple(row) for row in kept.xyxy.tolist()),
            labels=tuple(kept.label.tolist()),
            nonfinite=found.nonfinite > 0,
            unanswered=found.nonfinite > 0 and not len(found),
            ms=ms,
        )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # nothing is left to be saved, and a library that hangs in its end holds nobody
