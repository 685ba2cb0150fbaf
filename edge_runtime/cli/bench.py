"""`edge-runtime bench`: the runtime against the bare model, in pairs, with every stage apart."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from edge_runtime.benchmark import BenchmarkReport, ModeReport


def bench(
    config: Annotated[Path, typer.Argument(help="Configuration whose cameras are recordings.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    pairs: Annotated[int, typer.Option(min=1, max=200, help="Pairs for each ratio.")] = 15,
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="About how long one pass takes.")] = 3.0,
    sustained: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=86_400,
            metavar="SECONDS",
            help="Run for so long instead, and tell the rate that holds beside the peak.",
        ),
    ] = None,
) -> None:
    """Measure every stage of a configuration against the bare model.

    With --sustained nothing is compared: the configuration runs as it is, pass after pass, and the rate that it
    holds when it is warm is told beside the best one. Deadlines belong to the first. A device in its case takes 10
    to 60 minutes to settle. Weights that are absent are obtained by their recipe first.
    """
    import cv2

    from edge_runtime.benchmark import run_benchmark
    from edge_runtime.cli.run import SWITCH_INTERVAL_S
    from edge_runtime.config import load_config
    from edge_runtime.packages import ensure_weights

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    loaded = load_config(config)
    for model in loaded.config.models.values():
        ensure_weights(loaded.resolve(model.package))
    cv2.setNumThreads(1)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if sustained is not None:
        from edge_runtime.benchmark.sustained import run_sustained
        from edge_runtime.cli.sustained import print_sustained, sustained_json

        held = run_sustained(loaded, seconds=sustained, window_s=seconds, progress=progress)
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        if as_json:
            typer.echo(json.dumps(sustained_json(held)))
        else:
            print_sustained(held)
        return
    report = run_benchmark(loaded, pairs=pairs, seconds=seconds, progress=progress)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if as_json:
        typer.echo(json.dumps(_as_json(report)))
    else:
        _print(report)


def _mode_json(mode: "ModeReport") -> dict[str, Any]:
    pairs = mode.pairs
    return {
        "execution": mode.execution,
        "reference": mode.reference,
        "ratio": round(pairs.ratio, 4),
        "quartiles": [round(pairs.low, 4), round(pairs.high, 4)],
        "pairs": pairs.pairs,
        "disturbed": pairs.disturbed,
        "fps": round(pairs.fps, 2),
        "reference_fps": round(pairs.reference_fps, 2),
        "cpu_ms": round(pairs.cpu_ms, 3),
        "reference_cpu_ms": round(pairs.reference_cpu_ms, 3),
        "utilisation": round(mode.utilisation, 4),
        "stages_ms": {
            name: {"p50": round(s.p50_ms, 4), "p95": round(s.p95_ms, 4), "p99": round(s.p99_ms, 4)}
            for name, s in mode.stages.items()
        },
    }


def _as_json(report: "BenchmarkReport") -> dict[str, Any]:
    return {
        "model": report.model,
        "cores": report.cores,
        "frames_per_pass": report.frames_per_pass,
        "ratio_to_bare": round(report.latency.pairs.ratio, 4),
        "ratio_to_best_bare": round(report.throughput.pairs.ratio, 4),
        "fps": round(report.throughput.pairs.fps, 2),
        "stages_ms": _mode_json(report.latency)["stages_ms"],
        "bare_fps": {name: round(fps, 2) for name, fps in report.bare_fps.items()},
        "latency": _mode_json(report.latency),
        "throughput": _mode_json(report.throughput),
    }


def _print(report: "BenchmarkReport") -> None:
    from rich.console import Console
    from rich.table import Table

    print_ = Console(highlight=False, soft_wrap=True).print
    print_(f"{report.model}: where the time of a frame goes in latency mode, ms")
    stages = Table(box=None, pad_edge=False)
    for column in ("stage", "p50", "p95", "p99"):
        stages.add_column(column, justify="left" if column == "stage" else "right")
    for name, s in report.latency.stages.items():
        stages.add_row(name, f"{s.p50_ms:.2f}", f"{s.p95_ms:.2f}", f"{s.p99_ms:.2f}")
    print_(stages)
    print_(f"\nbare inference loops on {report.cores} cores, one stream")
    for name, fps in report.bare_fps.items():
        print_(f"  {name:<20} {fps:7.1f} frames/s")
    print_("\nthe whole runtime, decoding included, in pairs with a bare loop")
    for name, mode in (("latency", report.latency), ("throughput", report.throughput)):
        p = mode.pairs
        print_(
            f"  {name:<11} {p.ratio:.3f} x {mode.reference}   (quartiles {p.low:.3f} to {p.high:.3f}, "
            f"{p.pairs} pairs)\n  {'':<11} {p.fps:.1f} against {p.reference_fps:.1f} frames/s; "
            f"{mode.execution}; model busy {100 * mode.utilisation:.0f} %; "
            f"{p.cpu_ms - p.reference_cpu_ms:+.1f} ms processor time a frame",
        )
    disturbed = report.latency.pairs.disturbed + report.throughput.pairs.disturbed
    if disturbed:
        total = report.latency.pairs.pairs + report.throughput.pairs.pairs
        print_(f"{disturbed} of {total} pairs were disturbed by other processes: measure again")
