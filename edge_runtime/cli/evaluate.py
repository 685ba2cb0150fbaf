"""`edge-runtime eval`: the accuracy of a model package on a COCO-format set."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge_runtime.cli.plugin_option import Plugins, named_plugins
from edge_runtime.cli.progress_bar import progress_bar
from edge_runtime.cli.state_option import State

if TYPE_CHECKING:
    from edge_runtime.authoring.evaluate import EvaluationReport
    from edge_runtime.engines.opening import ModelOptions
    from edge_runtime.engines.source import EngineSource
    from edge_runtime.packages.manifest import AccuracyFloor
    from edge_runtime.perception.backends import Backend


def evaluate(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The model package.", show_default=False)],
    images: Annotated[Path, typer.Option(help="Folder of the images.", show_default=False)],
    annotations: Annotated[
        Path, typer.Option(metavar="FILE", help="Ground truth in COCO format.", show_default=False)
    ],
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Score these categories only, separated by commas; else all that are annotated.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    floor: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Fail below this mAP, instead of the package's own floor."),
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the figures into the manifest.")] = False,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the set for --record; else the folder's.")
    ] = None,
    score: Annotated[float, typer.Option(min=0, max=1, help="Least score of a detection.")] = 0.001,
    nms_iou: Annotated[
        float, typer.Option(min=0, max=1, help="IoU above which boxes are duplicates.")
    ] = 0.65,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out and count absent or damaged images.")
    ] = False,
    provider: Annotated[
        list[str] | None,
        typer.Option(help="cpu, cuda, tensorrt, in order of preference.", show_default="cpu"),
    ] = None,
    plugin: Plugins = None,
    state: State = None,
) -> None:
    """Measure a model package on a COCO-format set.

    Labels and categories are matched by name. Detections are made with the parts that run on the device, at the
    usual threshold and suppression of the COCO protocol rather than those of a deployment.
    """
    import cv2

    from edge_runtime.authoring.average_precision import require_evaluator
    from edge_runtime.authoring.coco import read_coco
    from edge_runtime.authoring.evaluate import evaluate_package, shortfall
    from edge_runtime.authoring.evaluate import record as write_record
    from edge_runtime.cli.report import write_json
    from edge_runtime.engines.opening import open_model
    from edge_runtime.errors import ConfigError, PackageError
    from edge_runtime.packages import open_package
    from edge_runtime.packages.manifest import AccuracyFloor

    require_evaluator()
    options = _options(provider or ("cpu",), plugin or ())
    if not images.is_dir():
        raise ConfigError(f"{images}: there is no such folder of images")
    if record and not directory.is_dir():
        raise ConfigError(f"{directory} is not a package folder: --record cannot write into an archive")
    truth = read_coco(annotations)
    package = open_package(directory)
    cv2.setNumThreads(1)
    opened = open_model(package, options, _engines(state), name=package.manifest.name, holds=False)
    backend = opened.model.backend
    try:
        _require_asked(backend, options)
        with progress_bar("images") as shown:
            report = evaluate_package(
                package,
                backend,
                truth,
                images,
                classes=class_names(classes),
                score=score,
                nms_iou=nms_iou,
                skip_unreadable=skip_unreadable,
                progress=partial(shown, "images"),
            )
    finally:
        backend.close()
    if record:
        write_record(package, report, dataset or annotations.resolve().parent.name)
    least = package.manifest.accuracy_floor
    if floor is not None:
        least = AccuracyFloor(metric="map", minimum=floor)
    low = shortfall(report, least)
    figures = {**_figures(report, least, fit=low is None), "provider": backend.facts.effective}
    if as_json:
        write_json(figures)
    else:
        _print(report)
    if low:
        raise PackageError(f"{package.manifest.name}: {low}")


def _options(providers: Sequence[str], plugins: Sequence[Path]) -> "ModelOptions":
    """How the model is run.

    Raises:
        ConfigError: there is no such provider, or a plugin library cannot be used as named.
    """
    from edge_runtime.engines.opening import PROVIDERS, TENSORRT, ModelOptions
    from edge_runtime.engines.request import TensorRtOptions
    from edge_runtime.engines.wanted import EngineOptions
    from edge_runtime.errors import ConfigError
    from edge_runtime.perception.pipeline import usable_cores

    unknown = [name for name in providers if name not in PROVIDERS]
    if unknown:
        raise ConfigError(f"there is no provider {unknown[0]}; choose among {', '.join(PROVIDERS)}")
    if plugins and TENSORRT not in providers:
        raise ConfigError("--plugin names libraries of TensorRT: add --provider tensorrt")
    return ModelOptions(
        tuple(providers),
        threads=usable_cores(),
        tensorrt=TensorRtOptions(engine=EngineOptions(plugins=named_plugins(plugins))),
    )


def _require_asked(backend: "Backend", options: "ModelOptions") -> None:
    """Measure nothing else than what was asked for: the CPU, as everybody's last resort, says nothing about a GPU.

    Raises:
        BackendError: another provider runs the model than any of those that were named.
    """
    from edge_runtime.cli.report import say
    from edge_runtime.errors import BackendError

    facts = backend.facts
    if facts.effective not in options.providers:
        raise BackendError(f"nothing was measured: {facts.degraded or f'{facts.effective} runs the model'}")
    if facts.degraded is not None:
        say(f"warning: {facts.degraded}")


def _engines(state: Path | None) -> "EngineSource":
    """Where an engine comes from; nothing is made before one is built."""
    from edge_runtime.engines.source import EngineSource
    from edge_runtime.engines.store import EngineStore
    from edge_runtime.state import StateDirectory

    return EngineSource(EngineStore(StateDirectory.find(state).engines))


def class_names(given: list[str] | None) -> tuple[str, ...]:
    """`--classes a,b --classes c` → a, b, c."""
    return tuple(name.strip() for text in given or () for name in text.split(",") if name.strip())


def _figures(report: "EvaluationReport", floor: "AccuracyFloor | None", *, fit: bool) -> dict[str, Any]:
    return {
        "map": round(report.precision.mean, 4),
        "ap50": round(report.precision.at_50, 4),
        "images": report.images,
        "unreadable": list(report.unreadable),
        "nonfinite": report.nonfinite,
        "floor": None if floor is None else {"metric": floor.metric, "minimum": floor.minimum},
        "fit": fit,
        "per_class": {name: round(value, 4) for name, value in report.precision.by_class.items()},
    }


def _print(report: "EvaluationReport") -> None:
    typer.echo(
        f"mAP {report.precision.mean:.4f}, AP50 {report.precision.at_50:.4f} over {report.images} images and "
        f"{_count(len(report.classes), 'class', 'classes')}"
    )
    if report.unreadable:
        left_out = _count(len(report.unreadable), "image", "images")
        typer.echo(f"left out as unreadable: {left_out}, the first is {report.unreadable[0]}")
    if report.nonfinite:
        typer.echo(f"candidates with NaN or infinite numbers: {report.nonfinite}")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
