"""`edge-runtime model quantize`: a package in 8 or 16 bits, let through only if it is nearly as accurate."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge_runtime.cli.evaluate import class_names
from edge_runtime.cli.progress_bar import progress_bar

if TYPE_CHECKING:
    from edge_runtime.authoring.quantize import Outcome
    from edge_runtime.packages import ModelPackage


class Precision(str, Enum):
    """What weights and arithmetic become."""

    INT8 = "int8"
    FP16 = "fp16"


class Method(str, Enum):
    """How the range of an 8-bit tensor is chosen from the values that were seen."""

    ENTROPY = "entropy"
    PERCENTILE = "percentile"
    MINMAX = "minmax"


def quantize(
    directory: Annotated[
        Path, typer.Argument(metavar="PACKAGE", help="The model package, in 32 bits.", show_default=False)
    ],
    calibration: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Pictures to calibrate with: a folder, or a COCO file beside them.",
            show_default=False,
        ),
    ],
    evaluate_on: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Ground truth in COCO format to measure on.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="The package to write.", show_default=False)
    ],
    images: Annotated[int, typer.Option(min=1, help="How many pictures to calibrate with.")] = 64,
    evaluate_images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Pictures of --evaluate-on; else `images` beside it, or its own folder."
        ),
    ] = None,
    precision: Annotated[Precision, typer.Option(help="What to convert to.")] = Precision.INT8,
    method: Annotated[Method, typer.Option(help="How int8 ranges are chosen.")] = Method.ENTROPY,
    max_drop: Annotated[
        float, typer.Option(min=0, max=100, metavar="POINTS", help="mAP points that may be lost.")
    ] = 2.0,
    leave: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="A layer to leave as it is; may be repeated.", show_default=False),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Score these categories only, separated by commas; else all that are annotated.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the package; else the parent's and the precision.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another package in DIR.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Make a smaller and faster package of a 32-bit one, and refuse it where it sees worse.

    Parent and candidates are measured on the same pictures, none of which is calibrated with. What loses more
    mAP than --max-drop is not written.
    """
    import cv2

    from edge_runtime.authoring.average_precision import require_evaluator
    from edge_runtime.authoring.calibration import choose_pictures, pictures_of
    from edge_runtime.authoring.coco import read_coco
    from edge_runtime.authoring.quantize import Evaluated, Settings, quantize_package
    from edge_runtime.authoring.quantized_package import write_quantized
    from edge_runtime.authoring.write_package import require_room
    from edge_runtime.errors import ConfigError, PackageError
    from edge_runtime.packages import open_package
    from edge_runtime.perception.pipeline import usable_cores

    require_evaluator()
    require_room(out, replace=force)
    pictures = evaluate_images or pictures_of(evaluate_on)
    if not pictures.is_dir():
        raise ConfigError(f"{pictures}: there is no such folder of images")
    truth = read_coco(evaluate_on)
    chosen = choose_pictures(calibration, images)
    package = open_package(directory)
    settings = Settings(
        precision=precision.value,
        method=method.value,
        max_drop=max_drop,
        leave=tuple(leave or ()),
        classes=class_names(classes),
        threads=usable_cores(),
    )
    cv2.setNumThreads(1)
    evaluated = Evaluated(truth, pictures, evaluate_on.resolve().parent.name)
    with progress_bar("preparing") as progress:
        outcome = quantize_package(package, chosen, evaluated, settings, progress)
    written = write_quantized(outcome, out, name=name, replace=force) if outcome.accepted else None
    _report(outcome, written, as_json=as_json)
    if written is None:
        raise PackageError(
            f"{package.manifest.name} in {precision.value} is refused, and nothing is written: "
            f"{outcome.best.verdict.refused} (candidates tried: {len(outcome.attempts)})"
        )


def _report(outcome: "Outcome", written: "ModelPackage | None", *, as_json: bool) -> None:
    if as_json:
        from edge_runtime.cli.report import write_json

        write_json(_figures(outcome, written))
        return
    before, parent = outcome.package.manifest.weights.bytes, outcome.parent
    typer.echo(
        f"parent: mAP {parent.precision.mean:.4f}, AP50 {parent.precision.at_50:.4f} over {parent.images} images, "
        f"{before} bytes"
    )
    for number, attempt in enumerate(outcome.attempts, start=1):
        size = len(attempt.candidate.weights)
        typer.echo(
            f"candidate {number}: mAP {attempt.verdict.child:.4f}, AP50 {attempt.report.precision.at_50:.4f}, "
            f"{attempt.verdict.drop:.2f} points lost of {attempt.verdict.max_drop:g}, {size} bytes "
            f"({size / before:.3f} of the parent), {len(attempt.candidate.left)} layers left as they were: "
            f"{attempt.verdict.refused or 'accepted'}"
        )
    if written is not None:
        typer.echo(f"{written.directory}: {written.manifest.name} {written.digest}")


def _figures(outcome: "Outcome", written: "ModelPackage | None") -> dict[str, Any]:
    parent, settings = outcome.parent, outcome.settings
    return {
        "fit": written is not None,
        "precision": settings.precision,
        "max_drop": settings.max_drop,
        "dataset": outcome.dataset,
        "images": parent.images,
        "parent": {
            "name": outcome.package.manifest.name,
            "digest": outcome.package.digest,
            "map": round(parent.precision.mean, 4),
            "ap50": round(parent.precision.at_50, 4),
            "bytes": outcome.package.manifest.weights.bytes,
        },
        "calibration": {
            "method": settings.method if settings.precision == "int8" else "peak",
            "images": len(outcome.calibration.images),
            "sha256": outcome.calibration.digest(),
        },
        "candidates": [
            {
                "map": round(attempt.verdict.child, 4),
                "ap50": round(attempt.report.precision.at_50, 4),
                "drop": round(attempt.verdict.drop, 2),
                "bytes": len(attempt.candidate.weights),
                "left": list(attempt.candidate.left),
                "refused": attempt.verdict.refused,
            }
            for attempt in outcome.attempts
        ],
        "package": None if written is None else str(written.directory),
        "digest": None if written is None else written.digest,
    }
