"""The double's device catches what a real one answers with garbage, and plays what goes wrong on a real one."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from ctypes import c_float, c_int, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.perception.backends.tensorrt._cuda import DeviceLost, OutOfDeviceMemory, WrongThread
from tests.rigs.tensorrt_double import Double, Faults, Gpu, Misuse, build_engine, installed
from tests.rigs.tensorrt_double.bench import FULL, KERNEL, SHAPES, Bench, Log, doubling


@pytest.fixture
def double(shared_data: Path) -> Iterator[Double]:
    with installed("10.3.0") as made:
        yield made


@pytest.fixture
def misused(shared_data: Path) -> Iterator[Double]:
    """A double whose misuses the test itself looks at."""
    with installed("10.3.0", misuse_allowed=True) as made:
        yield made
    assert made.device.misuses


# Misuse


def before_the_shape(bench: Bench) -> None:
    bench.context.set_tensor_address("x", bench.x)
    bench.context.set_tensor_address("y", bench.y)
    bench.context.execute_async_v3(bench.stream)


def without_an_address(bench: Bench) -> None:
    bench.context.set_input_shape("x", FULL)
    bench.context.set_tensor_address("x", bench.x)
    bench.context.execute_async_v3(bench.stream)


def with_a_buffer_that_is_too_small(bench: Bench) -> None:
    bench.ready()
    bench.cuda.free(bench.y)
    bench.y = bench.cuda.allocate(64)
    bench.context.set_tensor_address("y", bench.y)
    bench.context.execute_async_v3(bench.stream)


def with_an_address_that_is_not_aligned(bench: Bench) -> None:
    bench.ready()
    bench.context.set_tensor_address("y", bench.y + 32)
    bench.context.execute_async_v3(bench.stream)


def with_a_buffer_that_was_freed(bench: Bench) -> None:
    bench.ready()
    bench.cuda.free(bench.y)
    bench.context.execute_async_v3(bench.stream)


def with_a_buffer_that_is_freed_meanwhile(bench: Bench) -> None:
    bench.ready()
    bench.context.execute_async_v3(bench.stream)
    bench.double.device.faults = Faults()
    bench.double.device._live.pop(bench.y)
    bench.double.device._starts.remove(bench.y)
    bench.cuda.synchronize(bench.stream)


def on_an_input_that_nobody_wrote(bench: Bench) -> None:
    bench.context.set_input_shape("x", FULL)
    bench.context.set_tensor_address("x", bench.x)
    bench.context.set_tensor_address("y", bench.y)
    bench.context.execute_async_v3(bench.stream)
    bench.cuda.synchronize(bench.stream)


def on_the_default_stream(bench: Bench) -> None:
    bench.ready().context.execute_async_v3(0)


def on_two_streams_at_once(bench: Bench) -> None:
    bench.ready()
    bench.context.execute_async_v3(bench.stream)
    bench.context.execute_async_v3(bench.cuda.create_stream())


def freeing_twice(bench: Bench) -> None:
    bench.cuda.free(bench.x)
    bench.cuda.free(bench.x)


def freeing_in_the_middle(bench: Bench) -> None:
    bench.cuda.free(bench.x + 8)


def freeing_host_memory_twice(bench: Bench) -> None:
    bench.cuda.free_host(bench.host)
    bench.cuda.free_host(bench.host)


def copying_beyond_the_end(bench: Bench) -> None:
    bench.cuda.copy_in(bench.x + 4, bench.host, bench.stream)


def copying_out_beyond_the_end(bench: Bench) -> None:
    bench.cuda.copy_out(bench.host, bench.x + 4, bench.stream)


def copying_from_memory_that_is_not_page_locked(bench: Bench) -> None:
    bench.cuda.copy_in(bench.x, np.zeros(96, np.uint8), bench.stream)


def copying_what_is_not_contiguous(bench: Bench) -> None:
    bench.cuda.copy_in(bench.x, bench.host[::2], bench.stream)


def copying_to_freed_memory(bench: Bench) -> None:
    bench.cuda.free(bench.x)
    bench.cuda.copy_in(bench.x, bench.host, bench.stream)


def copying_to_an_address_of_the_host(bench: Bench) -> None:
    bench.cuda.copy_in(id(bench), bench.host, bench.stream)


def reading_what_nobody_wrote(bench: Bench) -> None:
    bench.cuda.copy_out(bench.host, bench.y, bench.stream)
    bench.cuda.synchronize(bench.stream)


def filling_beyond_the_end(bench: Bench) -> None:
    bench.cuda.fill(bench.x, 0, 97, bench.stream)


def a_stream_that_was_destroyed(bench: Bench) -> None:
    bench.cuda.destroy_stream(bench.stream)
    bench.cuda.synchronize(bench.stream)


def an_event_that_was_destroyed(bench: Bench) -> None:
    event = bench.cuda.create_event()
    bench.cuda.destroy_event(event)
    bench.cuda.record(event, bench.stream)


def a_leak(bench: Bench) -> None:
    bench.cuda.close()


def an_allocation_of_nothing(bench: Bench) -> None:
    bench.cuda.allocate(0)


def synchronising_while_capturing(bench: Bench) -> None:
    bench.cuda.begin_capture(bench.stream)
    bench.cuda.synchronize(bench.stream)


MISUSES = {
    before_the_shape: "before the shape of x is set",
    without_an_address: "the address of y is not set",
    with_a_buffer_that_is_too_small: "96 bytes at offset 0 go beyond allocate of 64 bytes",
    with_an_address_that_is_not_aligned: "the address of y is not a multiple of 256",
    with_a_buffer_that_was_freed: "was freed or never allocated",
    with_a_buffer_that_is_freed_meanwhile: "was freed or never allocated",
    on_an_input_that_nobody_wrote: "reads x, which nobody has written",
    on_the_default_stream: "is no stream",
    on_two_streams_at_once: "on two streams at once",
    freeing_twice: "freed twice",
    freeing_in_the_middle: "is inside allocate",
    freeing_host_memory_twice: "freed twice",
    copying_beyond_the_end: "96 bytes at offset 4 go beyond",
    copying_out_beyond_the_end: "96 bytes at offset 4 go beyond",
    copying_from_memory_that_is_not_page_locked: "not page-locked",
    copying_what_is_not_contiguous: "not contiguous",
    copying_to_freed_memory: "was freed or never allocated",
    copying_to_an_address_of_the_host: "is no device address",
    reading_what_nobody_wrote: "nobody wrote to allocate before it was read",
    filling_beyond_the_end: "97 bytes at offset 0 go beyond",
    a_stream_that_was_destroyed: "is no stream",
    an_event_that_was_destroyed: "is no event",
    a_leak: "closed while these are alive: 96 bytes of device memory, 96 bytes of device memory, 96 bytes of page",
    an_allocation_of_nothing: "an allocation of 0 bytes",
    synchronising_while_capturing: "is being captured",
}


@pytest.mark.parametrize(
    ("misuse", "text"), MISUSES.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_catches(misused: Double, misuse: Any, text: str) -> None:
    bench = Bench(misused)
    with pytest.raises(Misuse, match=text):
        misuse(bench)
    with pytest.raises(Misuse, match="the device was misused"):
        misused.check()


def elsewhere(call: Any) -> BaseException | None:
    """What a call raises on another thread."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


OTHER_THREADS = {
    "a context": lambda bench: bench.context.set_input_shape("x", FULL),
    "an execution": lambda bench: bench.context.execute_async_v3(bench.stream),
    "an engine": lambda bench: bench.engine.num_io_tensors,
    "a runtime": lambda bench: bench.runtime.deserialize_cuda_engine(b""),
}


@pytest.mark.parametrize("call", OTHER_THREADS.values(), ids=OTHER_THREADS)
def test_catches_the_wrong_thread(misused: Double, call: Any) -> None:
    bench = Bench(misused).ready()
    error = elsewhere(lambda: call(bench))
    assert isinstance(error, Misuse)
    assert "which is not the one that made it" in str(error)


def test_catches_a_use_after_a_fork(misused: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(misused).ready()
    monkeypatch.setattr("tests.rigs.tensorrt_double.stage.os.getpid", lambda: -1)
    with pytest.raises(Misuse, match="execute_async_v3 after fork"):
        bench.context.execute_async_v3(bench.stream)


def test_a_device_of_another_thread_is_refused_with_the_seams_own_error(double: Double) -> None:
    bench = Bench(double)
    assert isinstance(elsewhere(lambda: bench.cuda.allocate(1)), WrongThread)
    bench.close()


def test_an_execution_without_a_context_of_cuda_is_caught(misused: Double) -> None:
    bench = Bench(misused).ready()
    misused.device.leave()
    with pytest.raises(Misuse, match="no CUDA context is current"):
        bench.context.execute_async_v3(bench.stream)


def careless(double: Double) -> None:
    """Frees twice and does not listen."""
    cuda = double.open_cuda()
    address = cuda.allocate(8)
    cuda.free(address)
    with contextlib.suppress(BaseException):
        cuda.free(address)
    cuda.close()


def test_a_misuse_that_somebody_swallows_is_told_at_the_end(shared_data: Path) -> None:
    with pytest.raises(Misuse, match="freed twice"):  # noqa: SIM117 - the end of the inner one raises
        with installed() as double:
            careless(double)


def test_a_write_to_page_locked_memory_that_was_freed_is_told_at_the_end(misused: Double) -> None:
    bench = Bench(misused)
    kept = bench.host
    bench.close()
    kept[5] = 1
    with pytest.raises(Misuse, match="96 bytes of page-locked memory were written to after they were freed"):
        misused.check()


def test_memory_that_is_still_held_is_in_the_ledger(double: Double) -> None:
    bench = Bench(double).ready()
    bench.run()
    ledger = double.ledger()
    assert sorted(a.owner for a in ledger.device) == [
        "activations of a context",
        "allocate",
        "allocate",
        "weights of an engine",
    ]
    assert [a.nbytes for a in ledger.host] == [96]
    assert (ledger.streams, ledger.contexts, ledger.empty) == (1, 1, False)
    bench.close()
    assert str(double.ledger()) == "nothing"


# Work waits, as on a device


def test_a_result_that_is_read_too_early_is_not_there(double: Double) -> None:
    bench = Bench(double).ready()
    before = bench.host.copy()
    bench.context.execute_async_v3(bench.stream)
    bench.cuda.copy_out(bench.host, bench.y, bench.stream)
    np.testing.assert_array_equal(bench.host, before)
    bench.cuda.synchronize(bench.stream)
    assert not np.array_equal(bench.host, before)
    bench.close()


def test_a_host_buffer_that_is_overwritten_too_early_spoils_the_copy(double: Double) -> None:
    bench = Bench(double).ready()
    bench.host.view(np.float32)[:] = 7
    np.testing.assert_array_equal(bench.run(), np.full(24, 14, np.float32))
    bench.close()


def test_a_stream_waits_for_another_only_where_it_was_told_to(double: Double) -> None:
    bench = Bench(double)
    other, event = bench.cuda.create_stream(), bench.cuda.create_event()
    bench.cuda.fill(bench.x, 1, 96, bench.stream)
    bench.cuda.synchronize(bench.stream)
    bench.cuda.fill(bench.x, 2, 96, other)
    bench.cuda.copy_out(bench.host, bench.x, bench.stream)
    bench.cuda.synchronize(bench.stream)
    assert set(bench.host.tolist()) == {1}  # the other stream had not run
    bench.cuda.record(event, other)
    bench.cuda.wait_event(bench.stream, event)
    bench.cuda.copy_out(bench.host, bench.x, bench.stream)
    bench.cuda.synchronize(bench.stream)
    assert set(bench.host.tolist()) == {2}
    bench.cuda.destroy_event(event)
    bench.cuda.destroy_stream(other)
    bench.close()


def until(condition: Callable[[], bool]) -> None:
    """Waits until another thread has come that far."""
    while not condition():
        threading.Event().wait(0.002)


class Freeing(threading.Thread):
    """Allocates and frees on another thread, which runs all that waits on the device."""

    def __init__(self, double: Double) -> None:
        super().__init__()
        self._double = double
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            cuda = self._double.open_cuda()
            cuda.free(cuda.allocate(8))
            cuda.close()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.error = error


WAITS = {
    "an event": lambda bench, event: bench.cuda.synchronize_event(event),
    "a stream": lambda bench, _: bench.cuda.synchronize(bench.stream),
    "a stream that ends": lambda bench, _: bench.cuda.destroy_stream(bench.stream),
    "memory that is freed": lambda bench, _: bench.cuda.free(bench.cuda.allocate(8)),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_who_waits_for_work_that_another_thread_runs_is_let_go_when_it_has_ended(
    double: Double, wait: Callable[[Bench, int], None]
) -> None:
    bench, began, may_end, done = Bench(double), threading.Event(), threading.Event(), []

    def slow() -> None:
        began.set()
        assert may_end.wait(60)
        done.append("work")

    event = bench.cuda.create_event()
    double.device.enqueue(bench.stream, "slow work", slow)
    bench.cuda.record(event, bench.stream)
    other = Freeing(double)
    assert began.wait(60)
    ending = threading.Timer(0.05, may_end.set)
    ending.start()
    wait(bench, event)
    assert done == ["work"]
    ending.join()
    other.join()
    assert other.error is None
    bench.cuda.destroy_event(event)
    if wait is WAITS["a stream that ends"]:
        bench.stream = bench.cuda.create_stream()
    bench.close()


def test_work_follows_what_another_thread_runs_of_its_stream(double: Double) -> None:
    bench = with_faults(double, Faults(hang_from=1, hang_seconds=60.0))
    assert bench.context.execute_async_v3(bench.stream)
    other = Freeing(double)
    until(lambda: double.device.count.calls.get("execution") == 1)
    ending = threading.Timer(0.05, double.device.release)
    ending.start()
    bench.cuda.copy_out(bench.host, bench.y, bench.stream)
    bench.cuda.synchronize(bench.stream)
    np.testing.assert_array_equal(bench.host.view(np.float32), 2 * np.arange(24, dtype=np.float32))
    ending.join()
    other.join()
    assert other.error is None
    bench.close()


def test_a_device_that_is_lost_in_the_work_that_another_thread_runs_is_lost_for_who_waits(
    double: Double,
) -> None:
    bench, began, may_end = Bench(double), threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        assert may_end.wait(60)
        double.device.lost = True

    double.device.enqueue(bench.stream, "slow work", slow)
    other = Freeing(double)
    assert began.wait(60)
    ending = threading.Timer(0.05, may_end.set)
    ending.start()
    with pytest.raises(DeviceLost):
        bench.cuda.synchronize(bench.stream)
    ending.join()
    other.join()
    assert isinstance(other.error, DeviceLost)


def test_work_that_waits_for_its_own_stream_is_caught(misused: Double) -> None:
    bench = Bench(misused)
    misused.device.enqueue(bench.stream, "callback", lambda: misused.device.synchronize(bench.stream))
    with pytest.raises(Misuse, match="waits for the stream itself"):
        bench.cuda.synchronize(bench.stream)


def test_memory_that_is_freed_within_work_waits_for_nothing(double: Double) -> None:
    bench = Bench(double)
    double.device.enqueue(bench.stream, "callback", lambda: bench.cuda.free(bench.cuda.allocate(8)))
    bench.cuda.synchronize(bench.stream)
    bench.close()


def test_an_event_stands_for_what_was_in_the_stream_when_it_was_recorded(double: Double) -> None:
    bench, event = Bench(double), 0
    event = bench.cuda.create_event()
    bench.cuda.fill(bench.x, 1, 96, bench.stream)
    bench.cuda.copy_out(bench.host, bench.x, bench.stream)
    bench.cuda.record(event, bench.stream)
    bench.cuda.fill(bench.x, 9, 96, bench.stream)
    bench.cuda.copy_out(bench.host, bench.x, bench.stream)
    bench.cuda.synchronize_event(event)
    assert set(bench.host.tolist()) == {1}
    bench.cuda.synchronize(bench.stream)
    assert set(bench.host.tolist()) == {9}
    bench.cuda.destroy_event(event)
    bench.close()


def test_a_graph_repeats_what_was_captured(double: Double) -> None:
    bench = Bench(double).ready()
    bench.cuda.synchronize(bench.stream)
    bench.cuda.begin_capture(bench.stream)
    bench.context.execute_async_v3(bench.stream)
    graph = bench.cuda.end_capture(bench.stream)
    assert double.device.count.calls.get("execution", 0) == 0
    for value in (1.0, 2.0):
        bench.host.view(np.float32)[:] = value
        bench.cuda.copy_in(bench.x, bench.host, bench.stream)
        bench.cuda.launch_graph(graph, bench.stream)
        bench.cuda.copy_out(bench.host, bench.y, bench.stream)
        bench.cuda.synchronize(bench.stream)
        assert set(bench.host.view(np.float32).tolist()) == {2 * value}
    bench.cuda.destroy_graph(graph)
    bench.close()


def launch(bench: Bench, count: int) -> None:
    function = bench.cuda.compile(KERNEL, "write")
    arguments = [c_void_p(bench.x), c_int(count), c_float(3)]
    bench.cuda.launch(function, (1, 1, 1), (1, 1, 1), arguments, bench.stream)


def test_a_kernel_runs_on_device_memory(double: Double) -> None:
    bench = Bench(double)
    launch(bench, 96)
    bench.cuda.copy_out(bench.host, bench.x, bench.stream)
    bench.cuda.synchronize(bench.stream)
    assert set(bench.host.tolist()) == {3}
    bench.close()


def test_a_kernel_that_writes_behind_the_end_is_caught(misused: Double) -> None:
    bench = Bench(misused)
    launch(bench, 97)
    with pytest.raises(Misuse, match="wrote behind the end of allocate"):
        bench.cuda.synchronize(bench.stream)


def test_a_kernel_on_freed_memory_is_caught(misused: Double) -> None:
    bench = Bench(misused)
    bench.cuda.free(bench.x)
    with pytest.raises(Misuse, match=r"launch of write: .* was freed"):
        launch(bench, 1)


# Faults


def with_faults(double: Double, faults: Faults) -> Bench:
    bench = Bench(double).ready()
    double.set_faults(faults)
    return bench


def test_outputs_are_not_a_number_from_an_execution_on(double: Double) -> None:
    bench = with_faults(double, Faults(nan_from=2))
    assert np.isfinite(bench.run()).all()
    assert np.isnan(bench.run()).all()
    bench.close()


def test_outputs_are_wrong_from_an_execution_on(double: Double) -> None:
    bench = with_faults(double, Faults(wrong_from=1, wrong_scale=10.0))
    np.testing.assert_array_equal(bench.run(), 20 * np.arange(24, dtype=np.float32))
    bench.close()


def test_memory_ends(shared_data: Path) -> None:
    with installed(faults=Faults(memory_bytes=10_000)) as double:
        cuda = double.open_cuda()
        address = cuda.allocate(9_000)
        with pytest.raises(OutOfDeviceMemory, match="out of memory"):
            cuda.allocate(1_001)
        assert cuda.memory() == (1_000, 8 << 30)
        cuda.free(address)
        cuda.free(cuda.allocate(10_000))
        cuda.close()


def test_on_a_board_page_locked_memory_is_the_devices_memory(shared_data: Path) -> None:
    free = {}
    for integrated in (True, False):
        with installed(gpu=Gpu(memory_bytes=1 << 20, integrated=integrated)) as double:
            cuda = double.open_cuda()
            host = cuda.allocate_host(1 << 10)
            free[integrated] = cuda.memory()[0]
            cuda.free_host(host)
            cuda.close()
    assert free == {True: (1 << 20) - (1 << 10), False: 1 << 20}


def test_an_engine_and_a_context_that_do_not_fit_are_refused(shared_data: Path) -> None:
    with installed() as double:
        engine = build_engine(double, doubling(), SHAPES)
        log = Log(double.tensorrt)
        runtime = double.tensorrt.Runtime(log.logger)
        double.set_faults(Faults(memory_bytes=10))
        assert runtime.deserialize_cuda_engine(engine) is None
        assert "OutOfMemory" in log.lines[-1]
        double.set_faults(Faults(memory_bytes=5_000))
        loaded = runtime.deserialize_cuda_engine(engine)
        assert loaded.create_execution_context() is None
        assert "OutOfMemory" in log.lines[-1]


def test_the_device_is_lost_and_stays_lost(double: Double) -> None:
    bench = with_faults(double, Faults(lost_from=2))
    bench.run()
    with pytest.raises(DeviceLost):
        bench.run()
    for call in (
        lambda: bench.cuda.allocate(1),
        bench.cuda.memory,
        lambda: bench.cuda.synchronize(bench.stream),
    ):
        with pytest.raises(DeviceLost):
            call()
    assert bench.context.execute_async_v3(bench.stream) is False
    assert "the device is lost" in bench.log.lines[-1]
    bench.cuda.close()


def test_a_hang_lasts_until_it_is_ended(shared_data: Path) -> None:
    with installed() as double:
        done = threading.Event()
        began = threading.Event()

        def run() -> None:
            bench = with_faults(double, Faults(hang_from=1, hang_seconds=60.0))
            began.set()
            bench.run()
            bench.close()
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        began.wait(30)
        assert not done.wait(0.05)
        double.device.release()
        assert done.wait(30)
        thread.join()


def test_an_execution_is_refused_once(double: Double) -> None:
    bench = with_faults(double, Faults(execute_fails=1))
    assert bench.context.execute_async_v3(bench.stream) is False
    assert "unspecified launch failure" in bench.log.lines[-1]
    assert bench.run().any()
    bench.close()


def test_a_context_is_refused_once(double: Double) -> None:
    bench = with_faults(double, Faults(context_fails=1))
    assert bench.engine.create_execution_context() is None
    assert bench.engine.create_execution_context() is not None
    bench.close()


def test_a_thousand_loads_leave_nothing(double: Double) -> None:
    engine = build_engine(double, doubling(), SHAPES)
    for _ in range(1000):
        bench = Bench(double, engine)
        bench.close()
    assert double.ledger().empty, str(double.ledger())
    del bench
