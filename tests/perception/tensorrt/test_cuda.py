"""The seam to CUDA: over both libraries, and what is said where neither, or no device, is there."""

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import BackendError, MissingDependency, first_line
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.tensorrt import (
    CudaError,
    DeviceLost,
    OutOfDeviceMemory,
    WrongThread,
    _cuda,
    kernel,
    open_cuda,
)
from edge_runtime.perception.backends.tensorrt import _cuda_pycuda as over_pycuda
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, CudaGraphs
from tests.rigs import pycuda_on_double
from tests.rigs.small_engines import doubling, opened, pictures
from tests.rigs.tensorrt_double import Double, Faults, build_engine, installed
from tests.rigs.tensorrt_double.bindings import Bindings


@contextmanager
def cuda_bindings(double: Double) -> Iterator[Bindings]:
    """`import cuda.bindings` gives the double's."""
    made = Bindings(double.device)
    parent = ModuleType("cuda")
    parent.__path__ = []
    parent.bindings = made.package  # type: ignore[attr-defined]
    names = {
        "cuda": parent,
        "cuda.bindings": made.package,
        "cuda.bindings.driver": made.driver,
        "cuda.bindings.nvrtc": made.nvrtc,
    }
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield made
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


@contextmanager
def pycuda(double: Double) -> Iterator[pycuda_on_double.PycudaOnDouble]:
    with pycuda_on_double.importable(double.device) as made:
        yield made


@pytest.fixture(params=[cuda_bindings, pycuda], ids=["cuda.bindings", "pycuda"])
def double(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """An Orin that one of the libraries opens."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    with installed("10.3.0") as made, request.param(made):
        yield made
        assert made.ledger().empty, str(made.ledger())


@pytest.fixture
def device(double: Double) -> Iterator[Cuda]:
    opened_device = open_cuda()
    yield opened_device
    opened_device.close()


def test_it_says_what_the_device_is(double: Double, device: Cuda) -> None:
    assert device.library in ("cuda.bindings 13.0.3", "pycuda 2026.1")
    assert device.device_name == "Orin"
    assert device.compute_capability == (8, 7)
    free, total = device.memory()
    assert free == total == double.device.gpu.memory_bytes
    assert isinstance(device, CudaGraphs) == device.library.startswith("cuda.bindings")


def test_copies_go_there_and_back(double: Double, device: Cuda) -> None:
    address, host = device.allocate(64), device.allocate_host(64)
    stream, other = device.create_stream(), device.create_stream()
    event = device.create_event()
    assert host.shape == (64,)
    assert host.dtype == np.uint8
    host[:] = np.arange(64)
    device.copy_in(address, host, stream)
    device.record(event, stream)
    device.synchronize_event(event)
    host[:] = 0
    device.fill(address, 7, 32, stream)
    device.record(event, stream)
    device.wait_event(other, event)
    device.copy_out(host, address, other)
    device.synchronize(other)
    assert host.tolist() == [7] * 32 + list(range(32, 64))
    device.destroy_event(event)
    device.destroy_stream(stream)
    device.destroy_stream(other)
    device.free_host(host)
    device.free(address)
    assert not double.ledger().device


def test_memory_that_it_did_not_make_is_not_freed(double: Double, device: Cuda) -> None:
    with pytest.raises(CudaError, match="allocate_host did not make"):
        device.free_host(np.zeros(4, np.uint8))


def test_every_call_of_another_thread_is_refused(double: Double, device: Cuda) -> None:
    host = device.allocate_host(16)
    address, stream, event = device.allocate(16), device.create_stream(), device.create_event()
    calls: dict[str, Callable[[], Any]] = {
        "memory": device.memory,
        "allocate": lambda: device.allocate(1),
        "free": lambda: device.free(address),
        "allocate_host": lambda: device.allocate_host(1),
        "free_host": lambda: device.free_host(host),
        "create_stream": device.create_stream,
        "destroy_stream": lambda: device.destroy_stream(stream),
        "create_event": device.create_event,
        "destroy_event": lambda: device.destroy_event(event),
        "record": lambda: device.record(event, stream),
        "wait_event": lambda: device.wait_event(stream, event),
        "synchronize_event": lambda: device.synchronize_event(event),
        "synchronize": lambda: device.synchronize(stream),
        "copy_in": lambda: device.copy_in(address, host, stream),
        "copy_out": lambda: device.copy_out(host, address, stream),
        "fill": lambda: device.fill(address, 0, 16, stream),
        "compile": lambda: device.compile("", "f"),
        "launch": lambda: device.launch(1, (1, 1, 1), (1, 1, 1), [], stream),
        "close": device.close,
    }
    assert set(calls) == {name for name, value in vars(Cuda).items() if callable(value) and name[0] != "_"}
    taken: list[str] = []

    def try_all() -> None:
        for name, call in calls.items():
            try:
                call()
            except WrongThread:
                continue
            except Exception:  # noqa: BLE001 (told below)
                pass
            taken.append(name)

    thread = threading.Thread(target=try_all)
    thread.start()
    thread.join()
    assert not taken
    device.destroy_event(event)
    device.destroy_stream(stream)
    device.free(address)
    device.free_host(host)


def test_full_memory_and_a_lost_device_have_their_own_errors(double: Double, device: Cuda) -> None:
    double.set_faults(Faults(memory_bytes=100))
    with pytest.raises(OutOfDeviceMemory, match=r"failed: out of memory"):
        device.allocate(200)
    with pytest.raises(OutOfDeviceMemory, match=r"failed: out of memory"):
        device.allocate_host(200)
    double.set_faults(Faults())
    double.device.lost = True
    with pytest.raises(DeviceLost, match="illegal memory access"):
        device.memory()
    double.device.lost = False


def test_a_source_that_does_not_compile_is_one_sentence(double: Double, device: Cuda) -> None:
    with pytest.raises(CudaError) as raised:
        device.compile('extern "C" void f(int a) { this is no C }', "f")
    assert "\n" not in str(raised.value)


def test_the_backend_runs_on_it(double: Double) -> None:
    spec = InputSpec(name="images", height=8, width=8, scale=1 / 255)
    backend = opened(double, open_device=open_cuda, input_spec=spec)
    assert backend.facts.preparation == "gpu"
    for seed in range(4):
        images = pictures(seed=seed)
        np.testing.assert_array_equal(backend.infer({"images": images}, 30)[0], images * 2)
    preprocessor = backend.preprocessor(spec)
    assert preprocessor is not None
    out = preprocessor.allocate(1)
    preprocessor.fill(np.full((20, 20, 3), 255, np.uint8), out, 0, None)
    np.testing.assert_allclose(backend.infer({"images": out}, 30)[1], 1.0, atol=1e-6)
    backend.close()


def test_graphs_need_a_library_that_has_them(double: Double) -> None:
    engine = build_engine(double, doubling())
    if open_library(double) == "pycuda":
        with pytest.raises(BackendError, match=r"pycuda 2026.1 has no CUDA graphs: install cuda-bindings"):
            opened(double, engine, open_device=open_cuda, cuda_graphs=True)
        return
    backend = opened(double, engine, open_device=open_cuda, cuda_graphs=True)
    for seed in range(6):
        images = pictures(seed=seed)
        np.testing.assert_array_equal(backend.infer({"images": images}, 30)[0], images * 2)
    assert double.ledger().graphs == 2
    backend.close()


def open_library(double: Double) -> str:
    device = open_cuda()
    name = device.library.split()[0]
    device.close()
    return name


def test_without_a_library_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings", "pycuda"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match="install cuda-bindings or pycuda") as raised:
        open_cuda()
    assert "cuda.bindings is not installed; pycuda is not installed" in str(raised.value)


@pytest.mark.parametrize(("version", "taken"), [("12.8.0", False), ("12.9.0", False), ("12.9.1", True)])
def test_bindings_that_hold_all_threads_up_are_refused(
    monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with installed("10.3.0") as double, cuda_bindings(double) as made:
        made.package.__version__ = version  # type: ignore[attr-defined]
        if taken:
            open_cuda().close()
        else:
            with pytest.raises(MissingDependency, match=f"{version} is too old: .* before 12.9.1"):
                open_cuda()


def test_bindings_come_first_where_both_are_installed() -> None:
    with installed("10.3.0") as double, pycuda(double), cuda_bindings(double):
        assert open_library(double) == "cuda.bindings"


def test_no_driver_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(flags: int) -> Any:
        raise RuntimeError(
            '"cuda" is an NVIDIA driver library and can only be found via system search.\nMore.'
        )

    with installed("10.3.0") as double, cuda_bindings(double) as made:
        made.driver._playing["cuInit"] = absent
        with pytest.raises(CudaError, match=r"CUDA cannot be used: .* found via system search\.$"):
            open_cuda()


def test_pycuda_without_nvcc_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(over_pycuda, "_NVCC", Path("/nowhere/nvcc"))
    monkeypatch.setattr(_cuda, "_images", {})
    spec = InputSpec(name="images", height=8, width=8)
    with installed("10.3.0") as double, pycuda(double):
        backend = opened(double, open_device=open_cuda, input_spec=spec)
        assert backend.facts.preparation == "cpu"
        assert backend.facts.note is not None
        assert "there is no nvcc, which pycuda needs" in backend.facts.note
        backend.close()


def test_the_stand_in_for_pycuda_has_only_pycudas_names() -> None:
    names = Path(__file__).parents[2] / "data" / "cuda_names.json"
    releases = json.loads(names.read_text(encoding="utf-8"))["pycuda"]["releases"]
    with installed("10.3.0") as double:
        made = pycuda_on_double.PycudaOnDouble(double.device)
    for release in releases:
        driver = release["driver"]
        known = {*driver["classes"], *driver["functions"], *driver.get("enums", ())}
        for name, value in vars(made.driver).items():
            if name.startswith("__"):
                continue
            assert name in known, (release["version"], name)
            methods = {m for m in getattr(value, "__dict__", {}) if m[0] != "_"} - {"handle", "arg_format"}
            if name in driver["classes"] and isinstance(value, type) and not issubclass(value, Exception):
                assert methods <= set(driver["classes"][name]), (release["version"], name)


def test_a_process_compiles_a_kernel_once(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda, "_images", {})
    for _ in range(3):
        device = open_cuda()
        assert all(device.compile(kernel.SOURCE, name) > 0 for name in kernel.FUNCTIONS)
        device.close()
    assert len(_cuda._images) == 1


def test_the_first_line_of_what_was_said() -> None:
    assert first_line("a\nb") == "a"
    assert first_line(ValueError()) == "ValueError"
