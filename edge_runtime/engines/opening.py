"""Opens a model with the first of its providers that runs it, proved; and says of each other one why it does not.

`tensorrt` is the runtime's own backend, on an engine out of the store. `cuda` and `cpu` are ONNX Runtime's. A
provider that cannot run the model is no error as long as another one can: the model is `degraded`, with the reason
in words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from edge_runtime.engines.holds import Role
from edge_runtime.engines.request import TensorRtOptions, TensorRtReport, TensorRtRequest, Thresholds
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.tensorrt_model import open_tensorrt
from edge_runtime.errors import BackendError, DecodeError, MissingDependency, PackageError
from edge_runtime.packages import ModelPackage
from edge_runtime.perception.backends import PROVING_TIMEOUT_S
from edge_runtime.perception.model import LoadedModel, load_model
from edge_runtime.telemetry import get_logger

TENSORRT: Final = "tensorrt"
PROVIDERS: Final = (TENSORRT, "cuda", "cpu")
"""What may stand in a configuration, the fastest first."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is to be run.

    Attributes:
        providers: in order of preference; the CPU is always the last resort.
        require_gpu: refuse to run on the CPU.
        threads: intra-op threads of one run of ONNX Runtime.
        spinning: let idle ones of them spin.
        thresholds: instead of the package's.
        tensorrt: how TensorRT runs it.
        first_run_s: that the first run of ONNX Runtime may take.
    """

    providers: tuple[str, ...] = ("cpu",)
    require_gpu: bool = False
    threads: int = 1
    spinning: bool = False
    thresholds: Thresholds = field(default_factory=Thresholds)
    tensorrt: TensorRtOptions = field(default_factory=TensorRtOptions)
    first_run_s: float = PROVING_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a provider does not run a model.

    Attributes:
        provider: as configured.
        reason: a sentence.
    """

    provider: str
    reason: str


@dataclass
class OpeningReport:
    """What it took to open a model.

    Attributes:
        tensorrt: of an engine; all at rest where none was asked for.
        refusals: of providers that were tried before the one that runs it.
    """

    tensorrt: TensorRtReport = field(default_factory=TensorRtReport)
    refusals: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model that runs, and what that took."""

    model: LoadedModel
    report: OpeningReport


def open_model(
    package: ModelPackage,
    options: ModelOptions,
    source: EngineSource | None,
    *,
    name: str,
    holds: bool = True,
) -> OpenedModel:
    """Load a package with the first of its providers that runs it.

    Args:
        package: verified.
        options: how it is to be run.
        source: of engines; None where nobody asked for any.
        name: of the model, for sentences and for what holds engines in the store.
        holds: whether the model keeps its engine in the store from now on.

    Raises:
        BackendError: no provider runs it, or only the CPU does and that is not enough; the text has every reason.
        PackageError: manifest and graph do not describe the same model.
        DecodeError: the head is not one that this runtime reads.
    """
    if unknown := [provider for provider in options.providers if provider not in PROVIDERS]:
        raise BackendError(f"there is no provider {unknown[0]}; choose among {', '.join(PROVIDERS)}")
    if options.require_gpu and set(options.providers) <= {"cpu"}:
        raise BackendError("require_gpu is set but providers names the CPU only: add cuda or tensorrt")
    report, first = OpeningReport(), None
    for group in _groups(options.providers):
        try:
            if group == (TENSORRT,):
                request = TensorRtRequest(
                    package, name, options.tensorrt, options.thresholds, Role.RUNNING if holds else None
                )
                model = _open_tensorrt(request, source, report)
            else:
                model = _open_onnxruntime(package, group, options)
        except (BackendError, MissingDependency) as error:
            report.refusals.append(Refusal(" and ".join(group), str(error)))
            first = first or error
            continue
        _say(model, options.providers, report)
        return OpenedModel(model, report)
    if first is not None and len(report.refusals) == 1:
        raise first
    raise BackendError(f"no provider runs the model {name}: {_reasons(report)}")


def _groups(providers: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Providers that are tried together, in order: ONNX Runtime takes several, and the CPU is its last resort."""
    group: list[str] = []
    for provider in providers:
        if provider != TENSORRT:
            group.append(provider)
            continue
        if group:
            yield tuple(group)
        group = []
        yield (TENSORRT,)
    yield tuple(group) or ("cpu",)


def _open_tensorrt(
    request: TensorRtRequest, source: EngineSource | None, report: OpeningReport
) -> LoadedModel:
    if source is None:
        raise BackendError("TensorRT needs an engine store, and none was given")
    try:
        return open_tensorrt(request, source, report.tensorrt)
    except (BackendError, MissingDependency):
        raise
    except (PackageError, DecodeError) as error:
        # What is wrong with the package itself, ONNX Runtime will say too; what only an engine needs, it will not.
        raise BackendError(str(error)) from error
    except Exception as error:
        # A library that breaks its word must not end each start: the guard would take that for a crash loop.
        get_logger().exception("TensorRT cannot be used", model=request.name)
        raise BackendError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def _open_onnxruntime(package: ModelPackage, group: tuple[str, ...], options: ModelOptions) -> LoadedModel:
    if options.require_gpu and "cuda" not in group:
        raise BackendError("the CPU could run it, and require_gpu forbids that")
    model = load_model(
        package,
        providers=group,
        require_gpu=options.require_gpu,
        threads=options.threads,
        spinning=options.spinning,
        score=options.thresholds.score,
        nms_iou=options.thresholds.nms_iou,
        first_run_s=options.first_run_s,
    )
    facts = model.backend.facts
    later = options.providers[options.providers.index(group[0]) :] if group[0] in options.providers else ()
    if facts.effective not in group and TENSORRT in later:  # it comes before the CPU
        model.close()
        raise BackendError(facts.degraded or f"{group[0]} does not run it")
    return model


def _say(model: LoadedModel, providers: tuple[str, ...], report: OpeningReport) -> None:
    """Put what was asked for, and why it is not what runs, into the backend's facts."""
    facts = model.backend.facts
    degraded = facts.degraded
    if report.refusals:
        reasons = _reasons(report) + (f"; {degraded}" if degraded else "")
        degraded = f"{providers[0]} was asked for but {facts.effective} runs the model ({reasons})"
    model.backend.facts = replace(facts, requested=providers, degraded=degraded)


def _reasons(report: OpeningReport) -> str:
    return "; ".join(f"{refusal.provider}: {refusal.reason}" for refusal in report.refusals)
