"""TensorRT by the runtime's own way: an engine is built, kept, proved, planned for, and prepared for on the GPU."""

from typing import Literal

from edge_runtime.engines.request import TensorRtOptions
from edge_runtime.perception.backends.onnxruntime import OnnxRuntimeBackend
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.model import LoadedModel
from edge_runtime.qualification.agreement import TOLERANCES, unmatched
from edge_runtime.qualification.subject import Subject
from edge_runtime.sources.frame import Image
from hil.gpu.bench import MIB, Bench, Failed, pictures

_TOLERANCE = TOLERANCES["fp16"]


def check_engine(bench: Bench) -> str:
    """Built where the store has none; the golden vectors were compared when it was opened."""
    with bench.tensorrt() as (model, report):
        entry = bench.source.store.inspect(report.key)
        bench.values.update(
            {
                "tensorrt": model.backend.facts.version,
                "key": report.key,
                "built": report.supply.built,
                "build_s": round(report.supply.seconds, 1),
                "engine_mib": None if entry is None else round(entry.bytes / MIB, 2),
                "golden_vectors": len(model.manifest.golden),
            }
        )
        if report.supply.found_wrong:
            raise Failed(f"a stored engine was found wrong: {report.supply.found_wrong[0]}")
        if not model.manifest.golden:
            raise Failed("the package has no golden vectors, so nothing was compared: choose one that has")
        lost, seen = _against_the_cpu(model)
    bench.values["detections"] = seen
    if lost or not seen:
        raise Failed(f"of {seen} detections of the CPU {lost} are not found by TensorRT")
    return "the engine answers as the package's author measured, and finds what the CPU finds"


def _against_the_cpu(model: LoadedModel) -> tuple[int, int]:
    cpu = OnnxRuntimeBackend(model.package.weights, threads=4)
    try:
        ours, theirs = Subject(model.package, model.backend), Subject(model.package, cpu)
        score, lost, seen = model.manifest.thresholds.score, 0, 0
        for picture in pictures():
            outputs, geometry = ours.show(picture)
            wanted = theirs.read(theirs.show(picture)[0], geometry, score)
            lost += len(unmatched(wanted, ours.read(outputs, geometry, score - _TOLERANCE.score), _TOLERANCE))
            seen += len(wanted)
    finally:
        cpu.close()
    return lost, seen


def check_preparation(bench: Bench) -> str:
    """The same pictures prepared on the CPU and on the GPU lead to the same detections."""
    found: dict[str, list[Detections]] = {}
    roads: tuple[Literal["cpu", "gpu"], ...] = ("cpu", "gpu")
    for prepare in roads:
        options = TensorRtOptions(prepare=prepare)
        with bench.tensorrt(options) as (model, _):
            found[prepare] = [_detect(model, picture) for picture in pictures()]
    lost = sum(
        len(unmatched(one, other, _TOLERANCE)) + len(unmatched(other, one, _TOLERANCE))
        for one, other in zip(found["cpu"], found["gpu"], strict=True)
    )
    seen = sum(len(one) for one in found["cpu"])
    bench.values.update({"pictures": len(found["cpu"]), "detections": seen})
    if lost or not seen:
        raise Failed(f"of {seen} detections {lost} are found after one kind of preparation only")
    return "what is prepared on the GPU is detected as what is prepared on the CPU"


def _detect(model: LoadedModel, picture: Image) -> Detections:
    tensor = model.preprocessor.allocate(1)
    geometry = model.preprocessor.fill(picture, tensor, 0, None)
    outputs = model.backend.infer(model.feeds(tensor, 1), 60.0)
    return model.postprocessor(outputs, 0, geometry)


def check_memory(bench: Bench) -> str:
    """What a loaded model really took against the plan that let it load."""
    with bench.device() as cuda:
        before = cuda.memory()[0]
        with bench.tensorrt() as (model, report):
            _detect(model, pictures()[0])
            taken = before - cuda.memory()[0]
        plan = report.plan
        left = before - cuda.memory()[0]
    if plan is None:
        raise Failed("the model was loaded without a plan of its memory")
    bench.values.update(
        {f"planned_{_name(term.name)}_mib": round(term.nbytes / MIB, 1) for term in plan.terms}
    )
    bench.values.update(
        {
            "planned_mib": round(plan.needed / MIB, 1),
            "reserve_mib": round(plan.reserve / MIB, 1),
            "taken_mib": round(taken / MIB, 1),
            "left_after_closing_mib": round(left / MIB, 1),
        }
    )
    if taken > plan.needed + plan.reserve:
        raise Failed(
            f"the model took {taken // MIB} MiB, and the plan promised {plan.needed // MIB} MiB "
            f"with {plan.reserve // MIB} MiB to spare"
        )
    return f"the model took {taken / MIB:.0f} MiB; planned were {plan.needed / MIB:.0f} MiB"


def _name(term: str) -> str:
    return term.replace(" ", "_").replace(",", "")
