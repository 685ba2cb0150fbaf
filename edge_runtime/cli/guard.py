"""`edge-runtime guard`: try the guard on this machine."""

from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Try the guard that holds the permission to move.",
)


@app.callback()
def _group() -> None:
    """Keeps `selftest` a command of its own while it is the only one."""


@app.command()
def selftest(
    trials: Annotated[int, typer.Option(help="Of each fault.", min=1, max=1000)] = 10,
    load: Annotated[int, typer.Option(help="Busy processes beside it, 0 to 64.", min=0, max=64)] = 0,
    real_time: Annotated[
        bool, typer.Option(" /--no-real-time", help="Measure without a real-time schedule.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Break workers and the guard itself, on purpose, and say how long it took to see.

    Nothing of the device is touched: a guard, a worker and a motion gate of its own run in a temporary folder.
    """
    from edge_runtime.guard.selftest.trials import Spread, run

    report = run(trials, load=load, real_time=real_time, told=lambda text: typer.echo(text, err=True))
    if as_json:
        from edge_runtime.cli.report import write_json

        write_json(report.to_json())
        return
    typer.echo(f"schedule {report.sched}, {load} busy processes, {trials} trials of each fault")
    rows: tuple[tuple[str, dict[str, Spread]], ...] = (
        ("latched beyond the deadline, us", report.beyond_deadline_us),
        ("guard broken to last command, ms", report.lease_end_ms),
    )
    for title, spreads in rows:
        typer.echo(f"{title:<34}{'min':>10}{'median':>10}{'p99':>10}{'max':>10}")
        for fault, spread in spreads.items():
            found = spread.to_json()
            cells = "".join(f"{found[name]:>10.1f}" for name in ("min", "median", "p99", "max"))
            typer.echo(f"  {fault:<32}{cells}")
