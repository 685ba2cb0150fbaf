"""The double in other processes, and under the runtime's own seam: nothing of the product is changed for it."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from ctypes import c_float, c_int, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.engines.build_process import BuildRequest
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.recipe import EngineRecipe, Profile, TensorDeclaration
from edge_runtime.perception.backends.tensorrt._cuda import CudaError, DeviceLost, OutOfDeviceMemory
from edge_runtime.perception.backends.tensorrt._cuda_bindings import BindingsCuda
from tests.rigs.small_engines import doubling
from tests.rigs.tensorrt_double import (
    GPUS,
    RELEASES,
    Double,
    DoubleFolder,
    Faults,
    Misuse,
    build_engine,
    double_folder,
    installed,
)
from tests.rigs.tensorrt_double.bench import KERNEL
from tests.rigs.tensorrt_double.bindings import VERSION, Bindings
from tests.rigs.tensorrt_double.strict import NotPlayed


@pytest.fixture
def folder(shared_data: Path, tmp_path: Path) -> Iterator[DoubleFolder]:
    made = double_folder(tmp_path / "double")
    yield made
    made.check()


def child(folder: DoubleFolder, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python process that has the double first on its path."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        env=folder.environment(),
        cwd=folder.path.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


RUN = """
    import pathlib, sys
    import numpy as np
    from edge_runtime.perception.backends.tensorrt import TensorRtBackend
    backend = TensorRtBackend(pathlib.Path(sys.argv[1]).read_bytes(), model="cars")
    pictures = np.full((1, 3, 8, 8), 3, np.float32)
    print(backend.facts.version, backend.facts.device, backend.infer({"images": pictures}, 60)[0].max())
    backend.close()
"""


@pytest.mark.parametrize("release", RELEASES)
def test_a_process_runs_an_engine_through_the_real_seam(
    shared_data: Path, tmp_path: Path, release: str
) -> None:
    folder = double_folder(tmp_path / "double", release)
    with installed(release) as double:
        (tmp_path / "engine").write_bytes(build_engine(double, doubling()))
        version = double.version
    done = child(folder, RUN, str(tmp_path / "engine"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{version} {GPUS[release].name}, cuda.bindings {VERSION} 6.0\n"
    (ended,) = folder.ended()
    assert (ended["misuses"], ended["left"], ended["executions"] >= 1) == ([], "nothing", True)


def test_a_process_plays_the_faults_of_its_folder(folder: DoubleFolder, tmp_path: Path) -> None:
    with installed() as double:
        (tmp_path / "engine").write_bytes(build_engine(double, doubling()))
    folder.set_faults(Faults(deserialise_fails=-1, deserialise_lines=("the plan is of no use",)))
    done = child(folder, RUN, str(tmp_path / "engine"))
    assert done.returncode == 1
    assert "EngineRefused" in done.stderr
    assert "the plan is of no use" in done.stderr


def test_a_misuse_in_a_process_is_told_to_its_parent(shared_data: Path, tmp_path: Path) -> None:
    folder = double_folder(tmp_path / "double")
    done = child(
        folder,
        """
        from edge_runtime.perception.backends.tensorrt._cuda import open_cuda
        device = open_cuda()
        address = device.allocate(100)
        device.free(address)
        try:
            device.free(address)
        except BaseException:
            pass
        """,
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(AssertionError, match="freed twice"):
        folder.check()
    assert folder.ended()[0]["left"] == "1 retained contexts"


def request(tmp_path: Path, release: str = "10.3.0", **changes: Any) -> tuple[Path, BuildRequest]:
    """A request for an engine of a small network, and where it lies."""
    weights = tmp_path / "model.onnx"
    weights.write_bytes(doubling(("batch", 3, 8, 8)))
    gpu = GPUS[release]
    machine = MachineFacts(
        gpu=gpu.name, sm="8.7", tensorrt=changes.pop("tensorrt", release), l4t=None, driver=None
    )
    tensors = {
        n: TensorDeclaration(name=n, dtype="float32", shape=(None, 3, 8, 8))
        for n in ("images", "twice", "same")
    }
    profile = Profile(input="images", minimum=(1, 3, 8, 8), optimum=(1, 3, 8, 8), maximum=(4, 3, 8, 8))
    recipe = EngineRecipe(
        weights_sha256=hashlib.sha256(weights.read_bytes()).hexdigest(),
        machine=machine,
        inputs=(tensors["images"],),
        outputs=(tensors["twice"], tensors["same"]),
        profiles=(profile,),
        workspace_bytes=1 << 20,
    )
    wanted = BuildRequest(
        weights=weights,
        recipe=recipe,
        result=tmp_path / "engine",
        timing_cache=tmp_path / "timing",
        parent=os.getpid(),
    )
    path = tmp_path / "request.json"
    path.write_text(wanted.model_dump_json(), encoding="utf-8")
    return path, wanted


def built(folder: DoubleFolder, path: Path) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of the build's own process, and its lines."""
    done = subprocess.run(
        [sys.executable, "-m", "edge_runtime.engines.build_process", str(path)],
        env=folder.environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_process_that_builds_runs_on_it_unchanged(folder: DoubleFolder, tmp_path: Path) -> None:
    path, wanted = request(tmp_path)
    code, lines = built(folder, path)
    assert (code, list(lines[-1])) == (0, ["done"]), lines
    assert {line["phase"] for line in lines[:-1]} >= {"Building Engine", "Tactic Selection"}
    assert wanted.timing_cache.read_bytes()
    with installed() as double:
        log = double.tensorrt.Logger()
        engine = double.tensorrt.Runtime(log).deserialize_cuda_engine(wanted.result.read_bytes())
        assert engine.get_tensor_name(0) == "images"
        assert tuple(engine.get_tensor_profile_shape("images", 0)[2]) == (4, 3, 8, 8)


def test_a_build_fails_in_its_own_process_with_tensorrts_words(folder: DoubleFolder, tmp_path: Path) -> None:
    folder.set_faults(
        Faults(build_fails=-1, build_lines=("could not find any implementation for node twice",))
    )
    code, lines = built(folder, request(tmp_path)[0])
    assert code == 1
    assert "could not find any implementation" in lines[-1]["failed"]["text"]


def test_a_process_imports_nothing_that_is_not_there(folder: DoubleFolder) -> None:
    done = child(folder, "import tensorrt; tensorrt.Bilder")
    assert "module 'tensorrt' has no attribute 'Bilder'" in done.stderr
    assert "No module named" in child(folder, "import cuda.bindings.cufile").stderr


# The seam over cuda.bindings, in this process


@pytest.fixture
def double(shared_data: Path) -> Iterator[Double]:
    with installed("10.3.0") as made:
        yield made


def seam(double: Double) -> BindingsCuda:
    modules = Bindings(double.device)
    return BindingsCuda(modules.driver, modules.nvrtc, VERSION)


def test_the_seam_copies_waits_and_gives_all_back(double: Double) -> None:
    cuda = seam(double)
    assert (cuda.device_name, cuda.compute_capability) == ("Orin", (8, 7))
    stream, other, event = cuda.create_stream(), cuda.create_stream(), cuda.create_event()
    address, host = cuda.allocate(64), cuda.allocate_host(64)
    host[:] = 7
    cuda.copy_in(address, host, stream)
    cuda.record(event, stream)
    cuda.wait_event(other, event)
    cuda.fill(address, 9, 32, other)
    cuda.copy_out(host, address, other)
    assert set(host.tolist()) == {7}
    cuda.synchronize(other)
    assert host.tolist() == [9] * 32 + [7] * 32
    cuda.synchronize_event(event)
    free, total = cuda.memory()
    assert total - free == 128
    cuda.free(address)
    cuda.free_host(host)
    cuda.destroy_event(event)
    for one in (stream, other):
        cuda.destroy_stream(one)
    cuda.close()
    assert double.ledger().empty, str(double.ledger())


def test_the_seam_compiles_and_launches(double: Double) -> None:
    cuda = seam(double)
    stream, address, host = cuda.create_stream(), cuda.allocate(16), cuda.allocate_host(16)
    function = cuda.compile(KERNEL, "write")
    cuda.launch(function, (1, 1, 1), (1, 1, 1), [c_void_p(address), c_int(16), c_float(5)], stream)
    cuda.copy_out(host, address, stream)
    cuda.synchronize(stream)
    assert set(host.tolist()) == {5}
    with pytest.raises(CudaError, match="named symbol not found"):
        cuda.compile(KERNEL, "missing")
    cuda.free(address)
    cuda.free_host(host)
    cuda.destroy_stream(stream)
    cuda.close()


def test_the_seam_says_what_the_compiler_says(double: Double) -> None:
    cuda = seam(double)
    with pytest.raises(CudaError, match="NVRTC_ERROR_COMPILATION"):
        cuda.compile("this is no C++", "write")
    cuda.close()


def test_the_seam_repeats_a_graph(double: Double) -> None:
    cuda = seam(double)
    stream, address, host = cuda.create_stream(), cuda.allocate(8), cuda.allocate_host(8)
    cuda.begin_capture(stream)
    cuda.fill(address, 4, 8, stream)
    graph = cuda.end_capture(stream)
    cuda.launch_graph(graph, stream)
    cuda.copy_out(host, address, stream)
    cuda.synchronize(stream)
    assert set(host.tolist()) == {4}
    cuda.destroy_graph(graph)
    cuda.free(address)
    cuda.free_host(host)
    cuda.destroy_stream(stream)
    cuda.close()
    assert double.ledger().empty, str(double.ledger())


def test_the_seam_tells_full_memory_from_a_lost_device(double: Double) -> None:
    cuda = seam(double)
    double.set_faults(Faults(memory_bytes=100))
    with pytest.raises(OutOfDeviceMemory, match="cuMemAlloc failed: out of memory"):
        cuda.allocate(101)
    double.device.lost = True
    with pytest.raises(DeviceLost, match="illegal memory access"):
        cuda.allocate(1)
    double.device.lost = False
    cuda.close()


def test_a_name_or_a_count_that_the_wheel_has_not_is_refused(shared_data: Path) -> None:
    with installed(misuse_allowed=True) as double:
        driver = Bindings(double.device).driver
        with pytest.raises(AttributeError, match="cuMemAllocate"):
            driver.cuMemAllocate(1)
        with pytest.raises(TypeError, match="takes exactly 1 positional argument"):
            driver.cuMemAlloc(1, 2)
        with pytest.raises(NotPlayed, match="cuMemAllocPitch"):
            driver.cuMemAllocPitch(1, 1, 4)
        with pytest.raises(Misuse, match="no CUDA context is current"):
            driver.cuMemAlloc(1)


def test_the_driver_wants_to_be_initialised(double: Double) -> None:
    driver = Bindings(double.device).driver
    code, device = driver.cuDeviceGet(0)
    assert (int(code), device) == (3, None)
    assert np.frombuffer(driver.cuGetErrorString(code)[1], "S1").size
