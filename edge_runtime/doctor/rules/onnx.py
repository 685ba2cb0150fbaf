"""ONNX Runtime, and the libraries without which no frame reaches a model."""

from collections.abc import Iterator

from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.findings import Finding
from edge_runtime.doctor.jetpack import numbers
from edge_runtime.doctor.needs import Needs

_BY_EXTRA = {"numpy": "NumPy", "opencv": "OpenCV (cv2)", "av": "PyAV (av)"}


def onnx(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """Whether models can run without TensorRT, and whether frames can be decoded and prepared."""
    yield from _runtime(facts, needs)
    yield from _libraries(facts, needs)


def _runtime(facts: Facts, needs: Needs) -> Iterator[Finding]:
    plain, with_cuda = facts.sees("onnxruntime"), facts.sees("onnxruntime-gpu")
    # the wheel with CUDA brings the module onnxruntime too, and then there is no metadata of that name
    plain_version = facts.modules["onnxruntime"].version if plain else None
    if with_cuda:
        yield Finding(
            "ok",
            "onnxruntime",
            f"ONNX Runtime {facts.modules['onnxruntime-gpu'].version} with CUDA is installed",
        )
        if plain_version is not None:
            yield Finding(
                "warning",
                "onnxruntime",
                "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: uninstall both, then "
                "install onnxruntime-gpu alone",
            )
    elif plain:
        yield Finding(
            "ok", "onnxruntime", f"ONNX Runtime {plain_version or '(version unknown)'} runs models on the CPU"
        )
    else:
        only = needs.configured and "tensorrt" in needs.first
        yield Finding(
            "error" if "cpu" in needs.first else "warning" if only or not needs.configured else "note",
            "onnxruntime",
            "ONNX Runtime is not installed, so that nothing takes over where TensorRT fails: pip install "
            "onnxruntime",
        )
    if "cuda" in needs.any and not with_cuda:
        severity = needs.missing("cuda", facts)
        if facts.machine.architecture == "aarch64":
            yield Finding(
                severity,
                "onnxruntime",
                "a model asks for cuda, and onnxruntime-gpu for aarch64 does not exist on PyPI: ask for tensorrt, "
                "or install a wheel that was built for this JetPack",
            )
        else:
            yield Finding(
                severity,
                "onnxruntime",
                "a model asks for cuda, and this ONNX Runtime has none: pip uninstall onnxruntime, then pip "
                "install 'edge-fleet-runtime[gpu]'",
            )


def _libraries(facts: Facts, needs: Needs) -> Iterator[Finding]:
    jetson = facts.jetson is not None
    for name, shown in _BY_EXTRA.items():
        if facts.sees(name):
            continue
        needed = needs.decoding if name == "av" else needs.configured
        bring = f"pip install 'edge-fleet-runtime[{'jetson' if jetson else 'device'}]'"
        if name == "opencv" and jetson:
            bring = "sudo apt install python3-opencv, in an environment with --system-site-packages"
        yield Finding("error" if needed else "warning", "onnxruntime", f"{shown} is not installed: {bring}")
    opencv, numpy = facts.modules.get("opencv"), facts.modules.get("numpy")
    old = jetson and opencv is not None and opencv.visible and opencv.system
    if old and numpy is not None and numbers(numpy.version or "")[:1] >= (2,):
        yield Finding(
            "warning",
            "onnxruntime",
            f"apt's OpenCV was built for NumPy 1, and this environment has NumPy {numpy.version}: pip install "
            "'numpy>=1.26,<2'",
        )
