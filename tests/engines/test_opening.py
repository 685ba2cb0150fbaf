"""Opening a model with the chain of its providers, on the double of TensorRT."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edge_runtime.engines.build import KILLED, BuiltEngine, NoEngine
from edge_runtime.engines.holds import Role
from edge_runtime.engines.opening import ModelOptions, open_model
from edge_runtime.engines.request import TensorRtOptions
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.supply import Supply, SupplyReport
from edge_runtime.engines.wanted import EngineOptions, wanted_recipe
from edge_runtime.errors import BackendError, PackageError
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.backends.tensorrt.device_preprocess import DevicePreprocessor
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.qualification.scenes import scene
from edge_runtime.sources.frame import Image
from tests.rigs.openings import Device, other_weights
from tests.rigs.packages import write_package
from tests.rigs.tensorrt_double import RELEASES, Faults, Gpu, installed


def answer(model: LoadedModel) -> list[Tensor]:
    """What a model says about one picture."""
    picture = model.preprocessor.allocate(1)
    model.preprocessor.fill(scene("portraits").image, picture, 0, None)
    return model.backend.infer(model.feeds(picture, 1), 60)


@pytest.mark.parametrize("release", RELEASES)
def test_a_model_is_built_once_and_found_again(release: str, small: ModelPackage, tmp_path: Path) -> None:
    with installed(release) as double:
        device = Device(double, tmp_path / "engines")
        first = device.opens(small)
        facts = first.model.backend.facts
        assert (facts.backend, facts.effective, facts.degraded) == ("tensorrt", "tensorrt", None)
        assert facts.requested == ("tensorrt", "cpu")
        assert first.report.tensorrt.supply.built == 1
        second = device.opens(small)
        assert second.report.tensorrt.supply.built == 0
        assert second.report.tensorrt.key == first.report.tensorrt.key
        assert len(device.workshop.keys) == 1
        assert double.ledger().empty


@pytest.mark.parametrize("prepare", ["cpu", "gpu"])
def test_it_answers_as_onnxruntime_does(device: Device, small: ModelPackage, prepare: str) -> None:
    opened = device.open(small, tensorrt=TensorRtOptions(prepare=prepare))  # type: ignore[arg-type]
    plain = open_model(small, ModelOptions(("cpu",)), None, name="m").model
    try:
        assert opened.model.backend.facts.preparation == prepare
        for mine, theirs in zip(answer(opened.model), answer(plain), strict=True):
            assert np.abs(mine - theirs).mean() < 0.01
    finally:
        opened.model.close()
        plain.close()


def test_two_models_of_one_architecture_never_share_an_engine(
    device: Device, small: ModelPackage, tmp_path: Path
) -> None:
    other = open_package(other_weights(small.directory, tmp_path / "other"))
    first, second = device.open(small, name="a"), device.open(other, name="b")
    try:
        assert first.report.tensorrt.key != second.report.tensorrt.key
        assert first.report.tensorrt.supply.built == second.report.tensorrt.supply.built == 1
        mine, theirs = answer(first.model), answer(second.model)
        assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(mine, theirs, strict=True))
    finally:
        first.model.close()
        second.model.close()
    again = device.open(other, name="b")
    try:
        assert again.report.tensorrt.supply.built == 0
        assert all(np.array_equal(a, b) for a, b in zip(answer(again.model), theirs, strict=True))
    finally:
        again.model.close()


def flip(path: Path) -> None:
    """Change one byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def test_a_flipped_byte_is_quarantined_and_rebuilt_once_over_three_starts(
    device: Device, small: ModelPackage
) -> None:
    device.opens(small)
    flip(device.file(".engine"))
    for start in range(3):
        opened = device.opens(small)
        assert opened.model.backend.facts.effective == "tensorrt"
        (reason,) = opened.report.tensorrt.supply.found_wrong if start == 0 else ("its bytes were changed",)
        assert "its bytes were changed" in reason
    assert len(device.workshop.keys) == 2, "built, and rebuilt once"
    (case,) = EngineStore(device.engines).quarantined()
    assert case.reason is not None
    assert "its bytes were changed" in case.reason.reason


def test_an_engine_that_is_damaged_again_and_again_ends_on_the_next_provider(
    device: Device, small: ModelPackage
) -> None:
    device.opens(small)
    builds = []
    for _ in range(4):
        if list(device.engines.glob("*.engine")):
            flip(device.file(".engine"))
        opened = device.opens(small)
        builds.append(opened.report.tensorrt.supply.built)
    assert builds == [1, 0, 0, 0]
    degraded = opened.model.backend.facts.degraded
    assert degraded is not None
    assert degraded.startswith("tensorrt was asked for but cpu runs the model (tensorrt: ")
    assert "taken out of use" in degraded
    assert opened.model.backend.facts.requested == ("tensorrt", "cpu")


def rewritten(device: Device, **machine: str) -> None:
    """Let a stored manifest speak of another machine, as a copied state directory does."""
    path = device.file(".json") if len(list(device.engines.glob("*.json"))) == 1 else None
    path = path or next(one for one in device.engines.glob("*.json") if one.name != "recent.json")
    found = json.loads(path.read_bytes())
    found["manifest"]["recipe"]["machine"] |= machine
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpu": "NVIDIA Thor"}, "built for GPU NVIDIA Thor, this device has GPU Orin"),
        ({"sm": "11.0"}, "built for SM 11.0, this device has SM 8.7"),
        ({"tensorrt": "10.13.3.9"}, "built for TensorRT 10.13.3.9, this device has TensorRT 10.3.0"),
    ],
)
def test_a_manifest_of_another_machine_is_a_mismatch_that_names_both(
    device: Device, small: ModelPackage, change: dict[str, str], says: str
) -> None:
    device.opens(small)
    rewritten(device, **change)
    for start in range(3):
        opened = device.opens(small)
        assert opened.model.backend.facts.degraded is None
        if start == 0:
            assert says in opened.report.tensorrt.supply.found_wrong[0]
        else:
            assert opened.report.tensorrt.supply.found_wrong == []
    assert len(device.workshop.keys) == 2


def test_a_manifest_of_another_shape_is_a_mismatch(device: Device, small: ModelPackage) -> None:
    device.opens(small)
    path = next(one for one in device.engines.glob("*.json") if one.name != "recent.json")
    found = json.loads(path.read_bytes())
    found["manifest"]["recipe"]["inputs"][0]["shape"][2] = 480
    path.write_text(json.dumps(found))
    opened = device.opens(small)
    assert "inputs" in opened.report.tensorrt.supply.found_wrong[0]
    assert "480" in opened.report.tensorrt.supply.found_wrong[0]
    assert len(device.workshop.keys) == 2


def test_an_engine_that_tensorrt_refuses_is_built_once_more(device: Device, small: ModelPackage) -> None:
    device.opens(small)
    device.double.set_faults(Faults(deserialise_fails=1))
    opened = device.opens(small)
    assert opened.model.backend.facts.effective == "tensorrt"
    assert "TensorRT does not load the engine" in opened.report.tensorrt.supply.found_wrong[0]
    assert len(device.workshop.keys) == 2
    device.double.set_faults(Faults())
    device.opens(small)
    assert len(device.workshop.keys) == 2


def test_engines_that_are_always_refused_cause_no_crash_loop(device: Device, small: ModelPackage) -> None:
    device.opens(small)
    device.double.set_faults(Faults(deserialise_fails=-1))
    for _ in range(3):
        opened = device.opens(small)
        assert opened.model.backend.facts.effective == "cpu"
    assert len(device.workshop.keys) == 2, "the second engine could not even be read by its own build"


def test_an_engine_that_answers_otherwise_is_never_built_again(device: Device, small: ModelPackage) -> None:
    device.double.set_faults(Faults(wrong_from=1))
    first = device.opens(small)
    assert first.model.backend.facts.effective == "cpu"
    degraded = first.model.backend.facts.degraded
    assert degraded is not None
    assert "does not answer as the package's author measured" in degraded
    assert "golden vector" in degraded
    device.double.set_faults(Faults())
    for _ in range(3):
        again = device.opens(small)
        assert again.model.backend.facts.effective == "cpu"
        assert "engine prune --quarantine" in (again.model.backend.facts.degraded or "")
    assert len(device.workshop.keys) == 1
    store = EngineStore(device.engines)
    store.empty_quarantine()
    store.failures.forget()
    assert device.opens(small).model.backend.facts.effective == "tensorrt"


def test_nan_in_the_answer_is_caught_without_golden_vectors_too(
    device: Device, small: ModelPackage, tmp_path: Path
) -> None:
    bare = open_package(other_weights(small.directory, tmp_path / "bare"))
    device.double.set_faults(Faults(nan_from=1))
    opened = device.opens(bare)
    assert opened.model.backend.facts.effective == "cpu"
    assert "street" in (opened.model.backend.facts.degraded or "")


def test_a_build_that_fails_is_not_begun_again_at_the_next_start(device: Device, small: ModelPackage) -> None:
    device.double.set_faults(Faults(build_fails=-1, build_lines=("Error Code 10: no implementation",)))
    first = device.opens(small)
    assert "Error Code 10: no implementation" in (first.model.backend.facts.degraded or "")
    device.double.set_faults(Faults())
    second = device.opens(small)
    assert second.model.backend.facts.effective == "cpu"
    assert "its build failed" in (second.model.backend.facts.degraded or "")
    assert len(device.workshop.keys) == 1


def test_an_operator_that_tensorrt_does_not_know_is_named(device: Device, small: ModelPackage) -> None:
    device.double.set_faults(Faults(refused_operators=("Conv",)))
    opened = device.opens(small)
    assert opened.model.backend.facts.effective == "cpu"
    assert "Conv" in (opened.model.backend.facts.degraded or "")


def test_memory_that_is_missing_is_said_in_terms(small: ModelPackage, tmp_path: Path) -> None:
    with installed("10.3.0", gpu=Gpu(memory_bytes=700 << 20)) as double:
        device = Device(double, tmp_path / "engines")
        opened = device.opens(small)
        degraded = opened.model.backend.facts.degraded or ""
        assert "building the engine of m needs" in degraded
        assert "workspace 512" in degraded
        assert "256 MiB must stay free, but only 700 of 700 MiB of the GPU's memory are free" in degraded
        assert device.workshop.keys == []
        smaller = TensorRtOptions(engine=EngineOptions(workspace_bytes=16 << 20))
        assert device.opens(small, tensorrt=smaller).model.backend.facts.effective == "tensorrt"


def test_a_gpu_that_must_be_used_is_not_replaced(device: Device, small: ModelPackage) -> None:
    device.double.set_faults(Faults(build_fails=-1))
    with pytest.raises(BackendError, match=r"no provider runs the model m: tensorrt: .*; cpu: .*require_gpu"):
        device.opens(small, require_gpu=True)


def test_without_tensorrt_the_next_provider_runs_and_says_what_to_install(
    small: ModelPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed("10.3.0") as double:
        device = Device(double, tmp_path / "engines")
        monkeypatch.setitem(sys.modules, "tensorrt", None)
        opened = device.opens(small)
        assert "pip install tensorrt" in (opened.model.backend.facts.degraded or "")
        assert not (tmp_path / "engines").exists(), "nothing is made for a machine that cannot use it"
        with pytest.raises(BackendError, match="pip install tensorrt"):
            device.opens(small, "tensorrt", require_gpu=True)


def test_a_single_provider_keeps_its_own_error(tmp_path: Path, small: ModelPackage) -> None:
    broken = replace(small, weights=tmp_path / "absent.onnx")
    with pytest.raises(BackendError, match=r"^absent\.onnx does not load in onnxruntime"):
        open_model(broken, ModelOptions(("cpu",)), None, name="m")


def test_the_engine_that_runs_and_the_last_good_one_are_held(
    device: Device, small: ModelPackage, tmp_path: Path
) -> None:
    first = device.opens(small).report.tensorrt.key
    second = device.opens(
        small, tensorrt=TensorRtOptions(engine=EngineOptions(tf32=False))
    ).report.tensorrt.key
    assert first != second
    store = EngineStore(device.engines)
    assert store.held("m", Role.RUNNING) == second
    assert store.held("m", Role.LAST_GOOD) == first
    assert store.prune().removed == ()


def test_a_timing_cache_is_kept_for_the_next_build(
    device: Device, small: ModelPackage, tmp_path: Path
) -> None:
    device.opens(small)
    device.opens(open_package(other_weights(small.directory, tmp_path / "other")))
    assert device.workshop.caches[0] == 0
    assert device.workshop.caches[1] > 0


def test_the_key_follows_what_matters_and_nothing_else(device: Device, small: ModelPackage) -> None:
    machine, _ = device.source().look()
    key = wanted_recipe(small, machine, EngineOptions()).key
    assert key == wanted_recipe(small, machine, EngineOptions()).key
    changed = [
        wanted_recipe(small, replace(machine, sm="8.6"), EngineOptions()),
        wanted_recipe(small, replace(machine, gpu="Orin NX"), EngineOptions()),
        wanted_recipe(small, replace(machine, tensorrt="10.3.0.30"), EngineOptions()),
        wanted_recipe(small, replace(machine, l4t="36.4.4"), EngineOptions()),
        wanted_recipe(small, machine, EngineOptions(tf32=False)),
        wanted_recipe(small, machine, EngineOptions(workspace_bytes=1 << 28)),
    ]
    assert len({key, *(recipe.key for recipe in changed)}) == 7


def test_a_model_with_sizes_that_vary_gets_a_profile(device: Device, tmp_path: Path) -> None:
    declared = {"images": ("b", 3, 320, 320), "orig_target_sizes": ("b", 2)}
    values = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {**declared, "boxes": ("b", 2)}.items()
    }
    nodes = [helper.make_node("Identity", ["orig_target_sizes"], ["boxes"])]
    graph = helper.make_graph(nodes, "g", [values[name] for name in declared], [values["boxes"]])
    network = bytes(helper.make_model(graph).SerializeToString())
    written = open_package(write_package(tmp_path / "package", weights=network))
    spec = InputSpec(name="images", height=320, width=320, batch=2, size_input="orig_target_sizes")
    package = replace(written, manifest=written.manifest.model_copy(update={"input": spec}))
    machine, _ = device.source().look()
    recipe = wanted_recipe(package, machine, EngineOptions(batch=4))
    batch = 2
    shapes = {
        profile.input: (profile.minimum, profile.optimum, profile.maximum) for profile in recipe.profiles
    }
    assert shapes[spec.name] == ((1, 3, 320, 320), (1, 3, 320, 320), (batch, 3, 320, 320))
    assert shapes["orig_target_sizes"] == ((1, 2), (1, 2), (batch, 2))


def test_a_name_that_is_no_provider_is_refused(device: Device, small: ModelPackage) -> None:
    with pytest.raises(BackendError, match="there is no provider npu; choose among tensorrt, cuda, cpu"):
        device.opens(small, "npu")


def test_twenty_openings_leave_nothing(device: Device, small: ModelPackage) -> None:
    for _ in range(20):
        device.opens(small)
        assert device.double.ledger().empty
    assert len(device.workshop.keys) == 1


def test_two_that_want_the_same_engine_build_it_once(device: Device, small: ModelPackage) -> None:
    source = device.source()
    machine, _ = source.look()
    recipe = wanted_recipe(small, machine, EngineOptions())

    def obtain(_number: int) -> tuple[bytes, int]:
        own, report = device.source(), SupplyReport()
        supply = Supply(own.store, own.budget_s, build=own.build)
        return supply.obtain(small.weights, recipe, report).engine, report.built

    with ThreadPoolExecutor(2) as pool:
        (first, mine), (second, theirs) = pool.map(obtain, range(2))
    assert first == second
    assert sorted((mine, theirs)) == [0, 1]
    assert len(device.workshop.keys) == 1


def test_a_gpu_that_prepares_pictures_otherwise_leaves_that_to_the_cpu(
    device: Device, small: ModelPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = DevicePreprocessor.fill

    def black(
        self: DevicePreprocessor, image: Image, out: Tensor, index: int, previous: Any = None
    ) -> Letterbox:
        return fill(self, np.zeros_like(image), out, index, previous)

    monkeypatch.setattr(DevicePreprocessor, "fill", black)
    opened = device.open(small)
    try:
        facts = opened.model.backend.facts
        assert (facts.effective, facts.preparation, facts.degraded) == ("tensorrt", "cpu", None)
        assert facts.note is not None
        assert "objects are not found" in facts.note
        assert isinstance(opened.model.preprocessor, Preprocessor)
        assert answer(opened.model)
    finally:
        opened.model.close()


def test_a_model_that_fits_only_once_is_said_to(small: ModelPackage, tmp_path: Path) -> None:
    options = TensorRtOptions(engine=EngineOptions(workspace_bytes=1 << 20), prepare="cpu")
    with installed("10.3.0", gpu=Gpu(memory_bytes=258 << 20)) as double:
        device = Device(double, tmp_path / "engines")
        opened = device.opens(small, tensorrt=options)
        assert opened.model.backend.facts.effective == "tensorrt"
        (warning,) = opened.report.tensorrt.warnings
        assert warning.startswith("no room to exchange the model while it runs: ")
        assert "weights of m 1" in warning
        assert "weights of its successor 1" in warning


def test_an_engine_that_takes_three_processes_down_is_built_once_more(
    device: Device, small: ModelPackage
) -> None:
    key = device.opens(small).report.tensorrt.key
    dies = (
        "import os, sys\nfrom pathlib import Path\nfrom edge_runtime.engines.store import EngineStore\n"
        "with EngineStore(Path(sys.argv[1])).loading(sys.argv[2]):\n    os._exit(9)\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", dies, str(device.engines), key], check=False)
        assert done.returncode == 9
    opened = device.opens(small)
    assert opened.model.backend.facts.effective == "tensorrt"
    assert "3 processes ended while loading it" in opened.report.tensorrt.supply.found_wrong[0]
    assert len(opened.report.tensorrt.supply.found_wrong) == 1
    assert len(device.workshop.keys) == 2
    assert device.opens(small).report.tensorrt.supply.found_wrong == []


def test_a_build_that_is_called_off_does_not_count(device: Device, small: ModelPackage) -> None:
    asked = replace(device.source(), stop=lambda: True)
    stopped = open_model(small, ModelOptions(("tensorrt", "cpu")), asked, name="m")
    stopped.model.close()
    assert "the run was asked to end" in (stopped.model.backend.facts.degraded or "")
    said: list[str] = []
    later = replace(
        device.source(),
        progress=lambda now: said.append(now.phase),
        stop=lambda: "Building Engine" in said,
    )
    stopped = open_model(small, ModelOptions(("tensorrt", "cpu")), later, name="m")
    stopped.model.close()
    assert "the build was called off" in (stopped.model.backend.facts.degraded or "")
    store = EngineStore(device.engines)
    assert store.failures.failing_keys() == ()
    assert not (device.engines / "building").exists()
    assert device.opens(small).model.backend.facts.effective == "tensorrt"


def test_a_build_that_is_killed_is_tried_at_three_starts(device: Device, small: ModelPackage) -> None:
    begun = []

    def killed(*_arguments: Any, **_named: Any) -> BuiltEngine:
        begun.append(1)
        raise NoEngine(KILLED, "the process that built the engine was ended by SIGKILL")

    reasons = []
    for _ in range(5):
        source = replace(device.source(), build=killed)
        opened = open_model(small, ModelOptions(("tensorrt", "cpu")), source, name="m")
        opened.model.close()
        reasons.append(opened.model.backend.facts.degraded or "")
    assert len(begun) == 3
    assert all("ended by SIGKILL" in reason for reason in reasons[:3])
    assert all("3 builds of it did not come to their end" in reason for reason in reasons[3:])


def test_a_name_that_no_recipe_can_hold_is_a_reason(device: Device, small: ModelPackage) -> None:
    machine, _ = device.source().look()
    with pytest.raises(PackageError, match="no engine of the model can be described: machine"):
        wanted_recipe(small, replace(machine, gpu="\u00e9" * 5), EngineOptions())
