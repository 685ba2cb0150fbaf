"""What became of each configured model; without a configuration, whether any model could run."""

from collections.abc import Iterator

from edge_runtime.doctor.facts import Facts, ModelFacts
from edge_runtime.doctor.findings import Finding
from edge_runtime.doctor.needs import Needs
from edge_runtime.doctor.rules.tensorrt import can_run

_NAMES = {"tensorrt": "TensorRT", "cuda": "CUDA", "cpu": "the CPU"}


def models(facts: Facts, needs: Needs) -> Iterator[Finding]:  # noqa: ARG001 - every rule takes both
    """Each model that was opened: the provider that ran it is the first that was asked for, or it is an error."""
    for name, model in facts.models.items():
        wanted = model.requested[0] if model.requested else "cpu"
        if model.error:
            yield Finding("error", "models", f"{name} does not open: {model.error}")
        elif model.effective != wanted:
            reason = _why(model) or "it does not say why"
            yield Finding(
                "error",
                "models",
                f"{name} asks for {_name(wanted)} and is run by {_name(model.effective)}: {reason}",
            )
        else:
            yield Finding(
                "ok",
                "models",
                f"{name} is run by {_name(model.effective)} ({model.backend} {model.version}), open in "
                f"{model.seconds:.1f} s",
            )


def _why(model: ModelFacts) -> str:
    """The reason alone: what was asked for and what runs it is said already."""
    lead = f"{model.requested[0]} was asked for but {model.effective} runs the model ("
    if model.degraded.startswith(lead) and model.degraded.endswith(")"):
        return model.degraded.removeprefix(lead)[:-1]
    return model.degraded


def _name(provider: str) -> str:
    return _NAMES.get(provider, provider or "nothing")


def nothing_runs(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """Without a configuration: what is missing so that no model at all could run."""
    if needs.configured:
        return
    by_tensorrt = can_run(facts)
    by_onnx = facts.sees("onnxruntime") or facts.sees("onnxruntime-gpu")
    lacks = [name for name in ("numpy", "opencv") if not facts.sees(name)]
    if lacks:
        yield Finding("error", "models", f"no model can run here without {' and '.join(lacks)}")
    elif not by_tensorrt and not by_onnx:
        yield Finding(
            "error",
            "models",
            "no model can run here: there is neither ONNX Runtime nor TensorRT with a GPU and pycuda or "
            "cuda.bindings",
        )
    else:
        ways = [("TensorRT", by_tensorrt), ("ONNX Runtime", by_onnx)]
        yield Finding(
            "ok",
            "models",
            f"models can run by {' and '.join(way for way, can in ways if can)}; with a configuration, each is "
            "opened",
        )
