"""The GPU checks on the double of TensorRT and CUDA: that they run, and that each finds the fault it is for.

What they say here about memory and speed is the double's.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.engines.request import TensorRtOptions, TensorRtReport
from edge_runtime.perception.backends.tensorrt import TensorRtBackend, kernel
from edge_runtime.perception.model import LoadedModel
from hil.gpu import bench as bench_module
from hil.gpu import kernel_check, latency_check, swaps_check
from hil.gpu.bench import Bench, Failed, NotPossible
from hil.gpu.device_check import check_device
from hil.gpu.engine_check import check_engine, check_memory, check_preparation
from hil.gpu.kernel_check import check_kernel
from hil.gpu.latency_check import check_latency
from hil.gpu.swaps_check import check_swaps
from tests.conftest import REPOSITORY
from tests.rigs.tensorrt_double import Double, Faults, installed
from tests.rigs.tensorrt_double.child import double_folder

PACKAGE = REPOSITORY / "models" / "centerface"
RELEASE = "10.3.0"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results, so that one engine serves all of these tests."""
    return tmp_path_factory.mktemp("gpu-checks")


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Double]:
    """Here and in the processes that build engines; every misuse of the device fails the test."""
    (tmp_path / "tensorrt.py").write_text(
        "import sys\n"
        "from tests.rigs.tensorrt_double import Double\n"
        f"sys.modules['tensorrt'] = Double('{RELEASE}').tensorrt\n",
        encoding="ascii",
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(REPOSITORY))))
    monkeypatch.setattr(kernel_check, "_LAUNCHES", 1)
    monkeypatch.setattr(latency_check, "_PASS_MS", 1.0)
    monkeypatch.setattr(latency_check, "_PAIRS", 2)
    with installed(RELEASE) as played:
        yield played
        assert not played.ledger().device, "a check left memory behind"


@pytest.fixture
def bench(double: Double, store: Path) -> Bench:
    return Bench(store, PACKAGE, swaps=10, open_device=double.open_cuda)


def test_the_device(bench: Bench) -> None:
    assert "opened and closed 20 times" in check_device(bench)
    assert bench.on_gpu
    assert bench.values["compute_capability"] == "8.7"


def test_the_kernel(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    every = list(kernel_check.cases())
    assert len(every) > 50
    monkeypatch.setattr(kernel_check, "cases", lambda: iter(every[::2]))
    check_kernel(bench)
    assert bench.on_gpu
    assert 0 < float(str(bench.values["worst_levels"])) <= 1
    assert int(str(bench.values["pictures"])) > 40


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(" + 2) >> 2;", " + 10) >> 2;", id="all values two levels too high"),
        pytest.param("slot.rgb ? red : blue", "slot.rgb ? blue : blue", id="a channel that is another"),
        pytest.param("x - slot.left", "x - slot.left - 1", id="one pixel further"),
        pytest.param("light * 1220542", "light * 1240542", id="another gain of the luma"),
    ],
)
def test_a_kernel_that_is_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, right: str, wrong: str
) -> None:
    source = kernel.SOURCE.replace(right, wrong, 1)
    assert source != kernel.SOURCE
    monkeypatch.setattr(kernel, "SOURCE", source)
    some = list(islice(kernel_check.cases(), 12))
    monkeypatch.setattr(kernel_check, "cases", lambda: iter(some))
    with pytest.raises(Failed, match="levels of 255 from the CPU's; at most 1 is allowed"):
        check_kernel(bench)


def test_the_engine_the_preparation_and_the_memory(bench: Bench) -> None:
    assert "answers as the package's author measured" in check_engine(bench)
    assert int(str(bench.values["detections"])) > 0
    assert bench.values["golden_vectors"] == 2
    check_preparation(bench)
    check_memory(bench)
    assert bench.values["left_after_closing_mib"] == 0


def test_the_latency(bench: Bench) -> None:
    assert "of the bare loop's rate" in check_latency(bench)
    assert {"bare_ms", "runtime_ms", "ratio_of_rates"} <= set(bench.values)


class Otherwise(Bench):
    """Its model is proved, and adds something to all that it answers afterwards."""

    @contextmanager
    def tensorrt(
        self, options: TensorRtOptions | None = None
    ) -> Iterator[tuple[LoadedModel, TensorRtReport]]:
        with super().tensorrt(options) as (model, report):
            infer = model.backend.infer
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    model.backend, "infer", lambda *given: [one + np.float32(0.01) for one in infer(*given)]
                )
                yield model, report


def test_a_runtime_that_answers_otherwise_than_the_bare_engine_is_found(double: Double, store: Path) -> None:
    with pytest.raises(Failed, match="not those of the bare engine"):
        check_latency(Otherwise(store, PACKAGE, open_device=double.open_cuda))


def test_swaps(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    # ONNX Runtime, which computes for the double, takes memory as it likes; ten swaps are too few to see past that
    monkeypatch.setattr(swaps_check, "resident_bytes", lambda: 100 << 20)
    assert "10 swaps" in check_swaps(bench)
    assert bench.values["device_growth_mib"] == 0


def test_a_process_that_grows_with_each_swap_is_found(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    kept: list[int] = []

    class Leaky(TensorRtBackend):
        def close(self) -> None:
            super().close()
            kept.append(4 << 20)

    monkeypatch.setattr(swaps_check, "TensorRtBackend", Leaky)
    monkeypatch.setattr(swaps_check, "resident_bytes", lambda: sum(kept))
    with pytest.raises(Failed, match=r"grew by 0\.0 MiB and the process by 32\.0 MiB"):
        check_swaps(bench)


def test_a_gpu_whose_memory_shrinks_with_each_swap_is_found(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, double: Double
) -> None:
    cuda, kept = double.open_cuda(), []

    class Leaky(TensorRtBackend):
        def close(self) -> None:
            super().close()
            kept.append(cuda.allocate(1 << 20))

    monkeypatch.setattr(swaps_check, "TensorRtBackend", Leaky)
    monkeypatch.setattr(swaps_check, "resident_bytes", lambda: 100 << 20)
    with pytest.raises(Failed, match=r"grew by 8\.0 MiB and the process by 0\.0 MiB"):
        check_swaps(bench)
    for address in kept:
        cuda.free(address)
    cuda.close()


@pytest.mark.timeout(400)
def test_the_script_on_the_double_through_the_runtimes_own_seam(tmp_path: Path) -> None:
    """Processes of its own, `cuda.bindings`, the build and the demo; without the kernel the run does not count."""
    folder, out = double_folder(tmp_path / "double", RELEASE), tmp_path / "results"
    chosen = ("device", "engine", "events")
    done = subprocess.run(
        ["sh", str(REPOSITORY / "hil" / "gpu" / "check.sh"), "--frames", "45"]
        + [word for name in chosen for word in ("--only", name)],
        env=folder.environment({**os.environ, "PYTHON": sys.executable, "OUT": str(out)}),
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    found = {check["check"]: check for check in report["checks"]}
    assert [(name, found[name]["status"], found[name]["on_gpu"]) for name in chosen] == [
        (name, "passed", True) for name in chosen
    ], done.stdout
    assert report["machine"]["library"].startswith("cuda.bindings")
    assert found["engine"]["values"]["built"] == 1
    assert found["events"]["values"]["events"] >= 1
    assert (done.returncode, report["verdict"]) == (
        3,
        "the kernel did not run on a GPU: this run does not count",
    )
    folder.check()
    assert {process["left"] for process in folder.ended()} == {"nothing"}
    # the demo took the engine that was there
    assert len(list((out / "state" / "engines").glob("*.engine"))) == 1


def test_no_gpu_is_not_possible_and_one_that_does_not_open_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, store: Path
) -> None:
    with installed(RELEASE, faults=Faults()) as played:

        def broken() -> Any:
            from edge_runtime.perception.backends.tensorrt import CudaError

            raise CudaError("cuInit failed: no CUDA-capable device is detected (100)")

        bench = Bench(store, PACKAGE, open_device=broken)
        monkeypatch.setattr(bench_module, "has_gpu", lambda: False)
        with pytest.raises(NotPossible, match="there is no GPU: cuInit failed"):
            check_device(bench)
        monkeypatch.setattr(bench_module, "has_gpu", lambda: True)
        with pytest.raises(Failed, match="there is a GPU, but CUDA does not open it: cuInit failed"):
            check_device(bench)
        assert not bench.on_gpu
        assert not played.ledger().device
