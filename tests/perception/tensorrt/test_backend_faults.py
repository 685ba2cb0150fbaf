"""What goes wrong on a device: each fault ends in a typed error of one sentence, and nothing is left behind."""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import BackendError, MissingDependency
from edge_runtime.perception.backends.base import InferenceTimeout
from edge_runtime.perception.backends.tensorrt import (
    CudaError,
    DeviceLost,
    EngineRefused,
    OutOfDeviceMemory,
    TensorRtBackend,
    WrongThread,
)
from tests.rigs.small_engines import counting_allocations, doubling, dynamic, opened, pictures
from tests.rigs.tensorrt_double import RELEASES, Double, Faults, build_engine, installed

PATIENCE_S = 60.0


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.005)


@pytest.fixture
def orin() -> Iterator[Double]:
    with installed("10.3.0") as double:
        yield double
        assert double.ledger().empty, str(double.ledger())


@pytest.mark.parametrize("release", RELEASES)
def test_an_engine_that_tensorrt_refuses_carries_what_it_said(release: str) -> None:
    with installed(release, faults=Faults(deserialise_fails=1)) as double:
        with pytest.raises(
            EngineRefused, match="cars: TensorRT does not load the engine; TensorRT says: "
        ) as raised:
            opened(double)
        assert any("Serialization" in line for line in raised.value.lines)
        assert double.ledger().empty
        opened(double).close()  # the next one is taken, and nobody remembers


def test_an_engine_of_another_tensorrt_or_gpu_is_refused(orin: Double) -> None:
    with installed("10.13.3") as thor:
        foreign = build_engine(thor, doubling())
    with pytest.raises(EngineRefused, match="Version tag does not match"):
        opened(orin, foreign)
    with pytest.raises(EngineRefused, match="TensorRT does not load the engine"):
        opened(orin, b"no engine at all")


def test_lines_of_an_earlier_failure_are_not_quoted_again(orin: Double) -> None:
    orin.set_faults(Faults(deserialise_fails=1, deserialise_lines=("the first reason",)))
    engine = build_engine(orin, doubling())
    with pytest.raises(EngineRefused, match="the first reason"):
        opened(orin, engine)
    orin.set_faults(Faults(deserialise_fails=1, deserialise_lines=()))
    with pytest.raises(EngineRefused, match="TensorRT gave no reason"):
        opened(orin, engine)


def test_no_execution_context_is_an_error(orin: Double) -> None:
    orin.set_faults(Faults(context_fails=1))
    with pytest.raises(EngineRefused, match="gives no execution context"):
        opened(orin)
    opened(orin).close()


def test_a_run_that_does_not_begin_fails_alone(orin: Double) -> None:
    backend = opened(orin)
    orin.set_faults(Faults(execute_fails=1))
    with pytest.raises(BackendError, match="does not begin the run"):
        backend.infer({"images": pictures()}, 30)
    for seed in range(4):
        np.testing.assert_array_equal(
            backend.infer({"images": pictures(seed=seed)}, 30)[0], pictures(seed=seed) * 2
        )
    backend.close()


def test_not_a_number_is_passed_on(orin: Double) -> None:
    backend = opened(orin)
    orin.set_faults(Faults(nan_from=1))
    assert np.isnan(backend.infer({"images": pictures()}, 30)[0]).all()
    backend.close()


def full(backend: TensorRtBackend, batch: int) -> bool:
    """Whether a run ends for want of memory."""
    try:
        backend.infer({"images": pictures(batch)}, 30)
    except OutOfDeviceMemory:
        return True
    return False


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [{}, {"cuda_graphs": True}], ids=["plain", "graphs"])
def test_memory_that_ends_at_any_allocation_leaves_nothing(options: dict[str, Any]) -> None:
    number = 1
    while True:
        with installed("10.3.0") as double:
            engine = dynamic(double)
            counted = counting_allocations(double, number)
            failed = False
            try:
                backend = opened(double, engine, **options)
            except OutOfDeviceMemory:
                failed = True
            else:
                failed = sum(full(backend, batch) for batch in (1, 2, 1, 2)) > 0
                backend.close()
            assert double.ledger().empty, f"allocation {number}: {double.ledger()}"
            if counted() < number:
                break
            assert failed, f"allocation {number} failed and nobody said so"
        number += 1
    assert number > 10


def test_a_lost_device_fails_every_run_with_one_sentence() -> None:
    with installed("10.3.0") as double:
        backend = opened(double)
        backend.infer({"images": pictures()}, 30)
        double.set_faults(Faults(lost_from=1))
        for _ in range(3):
            with pytest.raises(DeviceLost, match="cars: the device is lost, restart the process"):
                backend.infer({"images": pictures()}, 30)
        backend.close()
        with pytest.raises(BackendError, match="the model is closed"):
            backend.infer({"images": pictures()}, 30)
        assert double.ledger().empty, str(double.ledger())


def test_a_device_that_is_lost_while_loading_says_so() -> None:
    with installed("10.3.0") as double:
        engine = build_engine(double, doubling())
        double.device.lost = True
        with pytest.raises(DeviceLost):
            opened(double, engine)
        double.device.lost = False
        assert double.ledger().empty, str(double.ledger())


def test_a_run_that_hangs_times_out_and_nothing_else_is_taken(orin: Double) -> None:
    backend = opened(orin)
    orin.set_faults(Faults(hang_from=1, hang_seconds=300))
    with pytest.raises(InferenceTimeout, match=r"cars: the model did not answer within 0\.2 s"):
        backend.infer({"images": pictures()}, 0.2)
    with pytest.raises(BackendError, match="restart the process if it never does") as raised:
        backend.infer({"images": pictures()}, 30)
    assert not isinstance(raised.value, InferenceTimeout)
    orin.set_faults(Faults())
    orin.device.release()

    def answers() -> bool:
        try:
            twice = backend.infer({"images": pictures(seed=7)}, 30)[0]
        except BackendError:
            return False
        np.testing.assert_array_equal(twice, pictures(seed=7) * 2)
        return True

    until(answers, "the backend to take runs again")
    backend.close()


def test_a_run_behind_one_that_hangs_is_withdrawn(orin: Double) -> None:
    backend = opened(orin, in_flight=1)
    orin.set_faults(Faults(hang_from=1, hang_seconds=300))
    hung: list[BaseException] = []

    def hang() -> None:
        try:
            backend.infer({"images": pictures()}, 300)
        except BackendError as error:
            hung.append(error)

    thread = threading.Thread(target=hang)
    thread.start()
    until(lambda: orin.device.count.calls.get("execution", 0) == 1, "the run to begin")
    with pytest.raises(InferenceTimeout, match="runs before it took that long"):
        backend.infer({"images": pictures()}, 0.1)
    orin.device.release()
    thread.join()
    assert not hung
    np.testing.assert_array_equal(backend.infer({"images": pictures()}, 30)[0], pictures() * 2)
    backend.close()


def test_closing_waits_for_what_is_on_the_device_and_fails_the_rest(orin: Double) -> None:
    backend = opened(orin, in_flight=1)
    orin.set_faults(Faults(hang_from=1, hang_seconds=300))
    ends: dict[int, str] = {}

    def ask(number: int) -> None:
        try:
            backend.infer({"images": pictures()}, 300)
        except BackendError as error:
            ends[number] = str(error)
        else:
            ends[number] = "answered"

    first = threading.Thread(target=ask, args=(0,))
    first.start()
    until(lambda: orin.device.count.calls.get("execution", 0) == 1, "the run to begin")
    others = [threading.Thread(target=ask, args=(number,)) for number in (1, 2)]
    for thread in others:
        thread.start()
    until(lambda: len(backend._worker._jobs) == 2, "the runs to wait")
    closing = threading.Thread(target=backend.close)
    closing.start()
    until(lambda: backend._worker._closing, "the close to begin")
    orin.device.release()
    for thread in (first, *others, closing):
        thread.join()
    assert ends == dict.fromkeys((1, 2), "cars: the model was closed before the run began") | {0: "answered"}


def test_a_device_that_never_lets_go_does_not_hold_the_close(orin: Double) -> None:
    backend = opened(orin)
    orin.set_faults(Faults(hang_from=1, hang_seconds=300))
    with pytest.raises(InferenceTimeout):
        backend.infer({"images": pictures()}, 0.1)
    assert not backend._worker.close(0.1)
    assert not orin.ledger().empty
    orin.device.release()
    until(lambda: orin.ledger().empty, "the thread to give everything back once the device lets go")


def _use_after_fork(backend: TensorRtBackend, answer: Any) -> None:
    try:
        backend.infer({"images": pictures()}, 5)
    except WrongThread as error:
        answer.send(str(error))
    backend.close()
    answer.send("closed")
    os._exit(0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_is_refused_before_cuda_is_touched(orin: Double) -> None:
    backend = opened(orin)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_use_after_fork, args=(backend, theirs))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == "cars was loaded in another process: load it after the spawn"
    assert ours.poll(60)
    assert ours.recv() == "closed"
    child.join()
    np.testing.assert_array_equal(backend.infer({"images": pictures()}, 30)[0], pictures() * 2)
    backend.close()
    ours.close()
    theirs.close()


def test_every_call_of_another_thread_is_refused(orin: Double) -> None:
    kept: list[Any] = []

    def open_and_keep() -> Any:
        kept.append(orin.open_cuda())
        return kept[0]

    backend = opened(orin, open_device=open_and_keep)
    for call in (kept[0].memory, kept[0].create_stream, lambda: kept[0].allocate(16), kept[0].close):
        with pytest.raises(WrongThread, match="opened in another thread"):
            call()
    backend.close()


def test_without_tensorrt_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(MissingDependency, match="pip install tensorrt cuda-bindings"):
        TensorRtBackend(b"", model="cars")


def test_a_device_that_does_not_open_is_the_error(orin: Double) -> None:
    def no_device() -> Any:
        raise CudaError("cuInit failed: no CUDA-capable device is detected (100)")

    engine = build_engine(orin, doubling())
    with pytest.raises(CudaError, match="no CUDA-capable device"):
        TensorRtBackend(engine, model="cars", open_device=no_device)
