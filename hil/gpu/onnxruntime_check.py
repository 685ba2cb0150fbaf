"""ONNX Runtime on the GPU against the package's golden vectors and against itself on the CPU."""

from typing import Final

import numpy as np

from edge_runtime.perception.backends.onnxruntime import PROVIDERS, OnnxRuntimeBackend
from edge_runtime.qualification.agreement import TOLERANCES, Precision, unmatched
from edge_runtime.qualification.golden_check import computed_problems
from edge_runtime.qualification.subject import Subject
from hil.gpu.bench import Bench, Failed, NotPossible, has_gpu, median_ms, pictures

_THREADS = 4
_PRECISION: Final[Precision] = "fp16"
"""The CUDA provider multiplies with TF32 by default, whose mantissa is that of a half."""


def check_onnxruntime(bench: Bench) -> str:
    """The CUDA provider; that ONNX Runtime has it says nothing, so the one that really runs is asked for."""
    package = bench.open_model()
    _require_provider()
    gpu = OnnxRuntimeBackend(package.weights, providers=("cuda",), threads=_THREADS)
    cpu = OnnxRuntimeBackend(package.weights, providers=("cpu",), threads=_THREADS)
    try:
        if gpu.facts.effective != "cuda":
            if has_gpu():
                raise Failed(f"there is a GPU, but {gpu.facts.degraded}")
            raise NotPossible(f"there is no GPU: {gpu.facts.degraded}")
        bench.on_gpu = True
        bench.values["onnxruntime"] = gpu.facts.version
        on_gpu, on_cpu = Subject(package, gpu), Subject(package, cpu)
        problems = [problem.text for problem in computed_problems(on_gpu, _PRECISION)]
        if problems:
            raise Failed(problems[0])
        lost = _lost(bench, on_gpu, on_cpu)
        tensor, _ = on_cpu.prepare(pictures()[0])
        feeds = {package.manifest.input.name: tensor}
        bench.values["gpu_ms"] = median_ms(lambda: gpu.infer(feeds), 50)
        bench.values["cpu_ms"] = median_ms(lambda: cpu.infer(feeds), 10)
    finally:
        gpu.close()
        cpu.close()
    if lost:
        raise Failed(f"{lost} detections of the CPU are not found on the GPU")
    return "golden vectors hold, and the GPU finds what the CPU finds"


def _require_provider() -> None:
    """ONNX Runtime must have been built with CUDA."""
    try:
        import onnxruntime  # noqa: PLC0415 (optional on a Jetson)
    except ImportError as error:
        raise NotPossible("onnxruntime is not installed") from error
    if PROVIDERS["cuda"] not in onnxruntime.get_available_providers():
        raise NotPossible(
            f"this onnxruntime {onnxruntime.__version__} was built without CUDA: install onnxruntime-gpu"
        )


def _lost(bench: Bench, on_gpu: Subject, on_cpu: Subject) -> int:
    """Detections of the CPU that have no counterpart on the GPU."""
    score, tolerance = on_cpu.manifest.thresholds.score, TOLERANCES[_PRECISION]
    lost, seen, worst = 0, 0, 0.0
    for picture in pictures():
        ours, geometry = on_gpu.show(picture)
        theirs, _ = on_cpu.show(picture)
        worst = max(worst, *(float(np.abs(ours[name] - theirs[name]).max()) for name in theirs))
        wanted = on_cpu.read(theirs, geometry, score)
        found = on_gpu.read(ours, geometry, score - tolerance.score)
        seen += len(wanted)
        lost += len(unmatched(wanted, found, tolerance))
    bench.values.update({"pictures": len(pictures()), "detections": seen, "largest_difference": worst})
    if not seen:
        raise Failed("the model found nothing on the CPU either: choose one that knows a drawn scene")
    return lost
