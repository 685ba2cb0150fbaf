"""One change to a board's facts, and the sentence that follows from it."""

from typing import Any

import pytest

from edge_runtime.doctor import Finding, exit_code, judge
from edge_runtime.doctor.jetpack import is_too_old, jetpack_of, numbers
from tests.doctor.recorded import configured, facts_of, module, opened

NANO, THOR, PC, BARE = (
    "orin_nano_jetpack_6_2",
    "thor_jetpack_7_0",
    "x86_64_with_gpu",
    "x86_64_without_gpu",
)
TRT = configured("tensorrt", "cpu")


def found(name: str, changes: dict[str, Any]) -> tuple[Finding, ...]:
    return judge(facts_of(name, changes))


def finding(name: str, changes: dict[str, Any], words: str) -> Finding:
    said = [item for item in found(name, changes) if words in item.text]
    assert len(said) == 1, [item.text for item in found(name, changes)]
    return said[0]


@pytest.mark.parametrize(
    ("name", "changes", "severity", "words"),
    [
        (
            NANO,
            {"jetson/l4t": "35.4.1", "packages": {}, "modules/tensorrt": module("8.5.2", system=True)},
            "warning",
            "L4T 35.4.1 is JetPack 5 or older, which this runtime does not support: flash JetPack 6.1",
        ),
        (NANO, {"jetson/l4t": "40.1.0"}, "note", "L4T 40.1.0 is a release that this runtime does not know"),
        (
            NANO,
            {"jetson": {"l4t": None, "soc": None, "jetpack": None, "power_mode": None, "power_modes": {}}},
            "note",
            "the power mode is not known",
        ),
        (
            NANO,
            {"jetson": {"l4t": None, "soc": None, "jetpack": None, "power_mode": None, "power_modes": {}}},
            "warning",
            "the release of L4T is not known (changed by a test)",
        ),
        (
            NANO,
            {"machine/python": "3.12.1"},
            "warning",
            "JetPack's TensorRT is built for Python 3.10, and this environment has Python 3.12",
        ),
        (
            PC,
            {"machine/python": "3.9.2"},
            "warning",
            "this runtime is for Python 3.10 to 3.13, and this one is",
        ),
        (
            NANO,
            {"modules/tensorrt": module("11.1.0", system=False)},
            "warning",
            "TensorRT 11.1.0 does not support Jetson: remove it and install JetPack's python3-libnvinfer",
        ),
        (
            NANO,
            {"modules/tensorrt": module("10.7.0", system=False)},
            "warning",
            "TensorRT 10.7.0 is not the one of JetPack 6.2, which is 10.3",
        ),
        (
            NANO,
            {"modules/tensorrt": None},
            "warning",
            "python3-libnvinfer is installed but this Python does not find its module",
        ),
        (NANO, {"modules/tensorrt": module(None), "packages": {}}, "warning", "nothing names its version"),
        (NANO, {"modules/pycuda": None}, "warning", "neither pycuda nor cuda.bindings is installed"),
        (
            NANO,
            {"modules/pycuda": module("2026.1", visible=False)},
            "warning",
            "pycuda is on this system but not in this environment",
        ),
        (
            NANO,
            {"cuda/nvcc": None, "cuda": {"version": "12.6", "nvcc": None, "nvrtc": None}},
            "warning",
            (
                "nvcc is not there, with which pycuda compiles the kernel that prepares frames: sudo apt install "
                "cuda-nvcc-12-6"
            ),
        ),
        (
            THOR,
            {"cuda": {"version": "13.0.0", "nvcc": "/usr/local/cuda/bin/nvcc", "nvrtc": None}},
            "warning",
            (
                "libnvrtc is not there, with which cuda.bindings compiles the kernel that prepares frames: "
                "sudo apt install cuda-nvrtc-13-0"
            ),
        ),
        (
            PC,
            {"modules/onnxruntime-gpu": module("1.31.1")},
            "warning",
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other",
        ),
        (
            PC,
            {"modules/onnxruntime-gpu": module("1.31.1"), "modules/onnxruntime": module(None)},
            "ok",
            "ONNX Runtime 1.31.1 with CUDA is installed",
        ),
        (
            PC,
            {"gpu": {"name": "X", "compute_capability": None, "driver": None, "memory_bytes": None}},
            "note",
            "the driver of X does not answer",
        ),
        (
            NANO,
            {"video": {"gstreamer": "1.20.3", "elements": {"nvv4l2decoder": False}}},
            "warning",
            (
                "GStreamer has no nvv4l2decoder, so that video is decoded by the processors: sudo apt install "
                "nvidia-l4t-gstreamer"
            ),
        ),
        (NANO, {"clock_synced": False}, "warning", "the clock is not synchronised"),
        (
            NANO,
            {"memory": {"total_bytes": 8 << 30, "available_bytes": 300 << 20}},
            "warning",
            "0.3 GiB of memory are available",
        ),
        (
            NANO,
            {"disk": {"path": "/s", "total_bytes": 1 << 40, "free_bytes": 20 << 30, "read_only": False}},
            "warning",
            "the disk of /s has 20.0 GiB left",
        ),
        (
            NANO,
            {"disk": {"path": "/s", "total_bytes": 9 << 30, "free_bytes": 1 << 30, "read_only": False}},
            "warning",
            "the disk of /s has 1.0 GiB left",
        ),
        (
            NANO,
            {"disk": {"path": "/s", "total_bytes": 9 << 30, "free_bytes": 9 << 30, "read_only": True}},
            "warning",
            "the disk of /s is read-only",
        ),
        (
            BARE,
            {"modules/onnxruntime": None},
            "error",
            "no model can run here: there is neither ONNX Runtime nor TensorRT with a GPU",
        ),
        (BARE, {"modules/opencv": None}, "error", "no model can run here without opencv"),
    ],
)
def test_without_a_configuration(name: str, changes: dict[str, Any], severity: str, words: str) -> None:
    assert finding(name, changes, words).severity == severity


@pytest.mark.parametrize(
    ("name", "changes", "severity", "words"),
    [
        (
            "agx_orin_jetpack_6_0",
            {"configuration": TRT},
            "error",
            "JetPack 6.0 (L4T 36.3.0) has TensorRT 8.6",
        ),
        (
            "agx_orin_jetpack_6_0",
            {"configuration": configured("cpu", "tensorrt")},
            "warning",
            "JetPack 6.0 (L4T",
        ),
        ("agx_orin_jetpack_6_0", {"configuration": configured("cpu")}, "note", "JetPack 6.0 (L4T"),
        (
            BARE,
            {"configuration": TRT},
            "error",
            "a model asks for a GPU, and there is no NVIDIA GPU or its driver is not loaded",
        ),
        (BARE, {"configuration": TRT}, "error", "TensorRT is not installed"),
        (BARE, {"configuration": TRT}, "error", "neither pycuda nor cuda.bindings is installed"),
        (
            NANO,
            {"configuration": configured("cuda", "cpu")},
            "error",
            "onnxruntime-gpu for aarch64 does not exist on PyPI: ask for tensorrt, or install a wheel that was",
        ),
        (
            PC,
            {"configuration": configured("cuda", "cpu")},
            "error",
            "a model asks for cuda, and this ONNX Runtime has none: pip uninstall onnxruntime",
        ),
        (
            NANO,
            {"configuration": TRT, "modules/onnxruntime": None},
            "warning",
            "ONNX Runtime is not installed, so that nothing takes over",
        ),
        (
            NANO,
            {"configuration": configured("cpu"), "modules/onnxruntime": None},
            "error",
            "ONNX Runtime is not installed",
        ),
        (NANO, {"configuration": TRT, "modules/av": None}, "error", "PyAV (av) is not installed"),
        (
            NANO,
            {"configuration": configured("tensorrt", sources=("gstreamer",)), "modules/av": None},
            "warning",
            "PyAV (av) is not installed",
        ),
        (
            NANO,
            {"configuration": configured("tensorrt", sources=("gstreamer",)), "modules/gi": None},
            "error",
            "Python's gi is not in this environment",
        ),
        (
            NANO,
            {
                "configuration": configured("tensorrt", sources=("gstreamer",)),
                "video": {"gstreamer": None, "elements": {}},
            },
            "error",
            "GStreamer is not there",
        ),
        (
            NANO,
            {
                "configuration": configured(
                    "tensorrt", sources=("gstreamer",), elements=("nvv4l2decoder", "tee")
                ),
                "video": {"gstreamer": "1.20.3", "elements": {"nvv4l2decoder": False, "tee": True}},
            },
            "error",
            "a pipeline names nvv4l2decoder, which GStreamer does not have: sudo apt install nvidia-l4t-gstreamer",
        ),
        (
            NANO,
            {
                "configuration": TRT,
                "disk": {"path": "/s", "total_bytes": 9 << 30, "free_bytes": 9 << 30, "read_only": True},
            },
            "error",
            "the disk of /s is read-only",
        ),
    ],
)
def test_a_configuration_decides_how_bad_it_is(
    name: str, changes: dict[str, Any], severity: str, words: str
) -> None:
    assert finding(name, changes, words).severity == severity


def test_tensorrt_asked_for_and_the_cpu_used_is_an_error() -> None:
    """R000-42: a provider that was asked for and is not the one that runs the model is never passed over."""
    lead = "tensorrt was asked for but cpu runs the model (tensorrt: no engine is built)"
    changes = {"configuration": TRT, "models": opened("tensorrt", "cpu", effective="cpu", degraded=lead)}
    said = finding(NANO, changes, "people")
    assert said == Finding(
        "error",
        "models",
        "people asks for TensorRT and is run by the CPU: tensorrt: no engine is built",
    )
    assert exit_code(found(NANO, changes)) == 1


def test_a_second_choice_counts_as_not_effective_too() -> None:
    changes = {
        "configuration": configured("tensorrt", "cuda"),
        "models": opened("tensorrt", "cuda", effective="cuda"),
    }
    text = finding(PC, changes, "people").text
    assert text == "people asks for TensorRT and is run by CUDA: it does not say why"


def test_what_was_asked_for_and_runs_is_well() -> None:
    changes = {
        "configuration": TRT,
        "models": opened("tensorrt", "cpu", effective="tensorrt", backend="tensorrt"),
    }
    assert (
        finding(NANO, changes, "people").text == "people is run by TensorRT (tensorrt 1.2.3), open in 1.5 s"
    )
    assert exit_code(found(NANO, changes)) == 0


def test_a_model_that_does_not_open_is_an_error() -> None:
    changes = {"configuration": TRT, "models": opened("tensorrt", "cpu", error="the file is not there")}
    assert finding(NANO, changes, "people").text == "people does not open: the file is not there"
    assert exit_code(found(NANO, changes)) == 1


@pytest.mark.parametrize(
    ("l4t", "name", "tensorrt"),
    [
        ("36.3.0", "6.0", "8.6"),
        ("36.4.0", "6.1", "10.3"),
        ("36.4.3", "6.2", "10.3"),
        ("36.4.4", "6.2.1", "10.3"),
        ("36.4.7", "6.2.1", "10.3"),
        ("36.5.0", "6.2.2", "10.3"),
        ("36.4.9", "6.1 or 6.2", "10.3"),
        ("38.2.2", "7.0", "10.13"),
        ("38.4.0", "7.1", "10.13"),
        ("39.2.0", "7.2", "10.16"),
        ("39.2.1", "7.2.1", "10.16"),
    ],
)
def test_the_table_of_jetpacks(l4t: str, name: str, tensorrt: str) -> None:
    release = jetpack_of(l4t)
    assert release is not None
    assert (release.name, release.tensorrt) == (name, tensorrt)
    assert not is_too_old(l4t)


def test_what_is_not_in_the_table() -> None:
    assert jetpack_of("41.1.0") is None
    assert jetpack_of("") is None
    assert is_too_old("32.7.1")
    assert not is_too_old("")


@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("10.3.0.30-1+cuda12.5", (10, 3, 0, 30)),
        ("13.5.0", (13, 5, 0)),
        ("1.2rc1", (1,)),
        ("", ()),
        ("x", ()),
        ("²", ()),
        ("9" * 30, ()),
    ],
)
def test_numbers_of_a_version(version: str, parts: tuple[int, ...]) -> None:
    assert numbers(version) == parts
