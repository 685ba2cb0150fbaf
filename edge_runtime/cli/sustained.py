"""How `edge-runtime bench --sustained` prints."""

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from edge_runtime.benchmark.sustained import SustainedReport

_SHOWN = 24


def sustained_json(report: "SustainedReport") -> dict[str, Any]:
    """The report as plain data."""
    return {
        "model": report.model,
        "execution": report.execution,
        "cores": report.cores,
        "frames_per_window": report.frames,
        "peak_fps": round(report.rate.peak_hz, 2),
        "sustained_fps": round(report.rate.sustained_hz, 2),
        "share": round(report.rate.share, 4),
        "settled": report.rate.settled,
        "shortest_deadline_ms": round(report.shortest_deadline_s * 1000, 1),
        "disturbed": sum(window.disturbed for window in report.windows),
        "windows": [
            {
                "seconds": round(window.seconds, 1),
                "fps": round(window.fps, 2),
                "cpu_ms": round(window.cpu_ms, 3),
                "disturbed": window.disturbed,
                "hottest_c": window.hottest_c.value,
                "throttled": window.throttled.value,
            }
            for window in report.windows
        ],
    }


def print_sustained(report: "SustainedReport") -> None:
    """The report for people; of many windows an even selection is shown."""
    rate = report.rate
    typer.echo(
        f"{report.model}: {report.frames} frames a window, {report.execution} mode, {report.cores} cores"
    )
    typer.echo(f"{'seconds':>8} {'frames/s':>9} {'CPU ms':>8} {'hottest':>9}  throttled")
    step = -(-len(report.windows) // _SHOWN)
    for window in report.windows[::step]:
        heat = "unknown" if window.hottest_c.value is None else f"{window.hottest_c.value:.1f} C"
        slowed = {None: "unknown", True: "yes", False: "no"}[window.throttled.value]
        note = "  disturbed by other processes" if window.disturbed else ""
        typer.echo(
            f"{window.seconds:>8.0f} {window.fps:>9.1f} {window.cpu_ms:>8.1f} {heat:>9}  {slowed}{note}"
        )
    typer.echo(
        f"peak {rate.peak_hz:.1f} frames/s, sustained {rate.sustained_hz:.1f} ({100 * rate.share:.0f} %); "
        f"shortest deadline {report.shortest_deadline_s * 1000:.0f} ms"
    )
    if not rate.settled:
        typer.echo("not settled: the slowest window counts as sustained; measure longer")
