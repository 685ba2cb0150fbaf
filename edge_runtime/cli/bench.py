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
) -> None:
    """Measure every stage of a configuration against the bare model."""
    from edge_runtime.benchmark import run_benchmark
    from edge_runtime.config import load_config

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    report = run_benchmark(load_config(config), pairs=pairs, seconds=seconds, progress=progress)
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

    console = Console()
    stages = Table(title=f"{report.model}: where the time of a frame goes (latency mode), ms")
    for column in ("stage", "p50", "p95", "p99"):
        stages.add_column(column, justify="left" if column == "stage" else "right")
    for name, s in report.latency.stages.items():
        stages.add_row(name, f"{s.p50_ms:.2f}", f"{s.p95_ms:.2f}", f"{s.p99_ms:.2f}")
    console.print(stages)
    bare = Table(title=f"bare inference loops on {report.cores} cores")
    bare.add_column("session options")
    bare.add_column("fps", justify="right")
    for name, fps in report.bare_fps.items():
        bare.add_row(name, f"{fps:.1f}")
    console.print(bare)
    modes = Table(title="the whole runtime, decoding included, against a bare loop (medians of pairs)")
    for column in ("mode", "runs", "against", "fps", "bare fps", "ratio", "quartiles", "model busy"):
        modes.add_column(column)
    for name, mode in (("latency", report.latency), ("throughput", report.throughput)):
        p = mode.pairs
        modes.add_row(
            name,
            mode.execution,
            mode.reference,
            f"{p.fps:.1f}",
            f"{p.reference_fps:.1f}",
            f"{p.ratio:.3f}",
            f"{p.low:.3f} to {p.high:.3f}",
            f"{100 * mode.utilisation:.0f} %",
        )
    console.print(modes)
    disturbed = report.latency.pairs.disturbed + report.throughput.pairs.disturbed
    if disturbed:
        console.print(
            f"{disturbed} of {2 * report.latency.pairs.pairs} pairs were disturbed by other processes"
        )
