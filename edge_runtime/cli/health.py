"""`edge-runtime health`: what the device says of itself, and what a log of tegrastats says."""

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from edge_runtime.health.health_log import HealthLog

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Read temperatures, power, memory, disk and clock; read logs of tegrastats.",
)


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    disk: Annotated[
        list[Path] | None,
        typer.Option("--disk", metavar="DIR", help="Also tell how full the disk of this folder is."),
    ] = None,
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Where sys, proc, etc and var lie.")
    ] = Path("/"),
) -> None:
    """Say how the device is: temperatures, throttling, power, memory, disk, clock.

    What cannot be read is null with a reason, never a number. Nothing needs root.
    """
    if context.invoked_subcommand is not None:
        return
    from edge_runtime.cli.report import write_json
    from edge_runtime.clock import SystemClock
    from edge_runtime.health import HealthReader, read_health, screen_lines

    snapshot = read_health(HealthReader(SystemClock(), root=root, disks=(Path("/"), *(disk or ()))))
    if as_json:
        write_json(snapshot.to_json())
        return
    for line in screen_lines(snapshot):
        typer.echo(line)


@app.command()
def parse(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text of tegrastats or jtop; - is stdin.")],
) -> None:
    """Turn tegrastats text of any L4T into JSON lines, one for each line of text that is not blank.

    A line that is none of tegrastats or jtop becomes {"line", "refused"}; how many there were is on stderr.
    """
    from edge_runtime.errors import EdgeRuntimeError
    from edge_runtime.health.health_log import HealthLog

    log = HealthLog()
    if file == "-":
        _write(log, io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))
    else:
        try:
            with Path(file).open(encoding="utf-8", errors="replace") as stream:
                _write(log, stream)
        except BrokenPipeError:  # of stdout: `| head` has seen enough
            raise
        except OSError as error:
            raise EdgeRuntimeError(f"{file}: {error.strerror}") from None
    understood = log.kinds.total() - log.kinds["refused"] - log.kinds["blank"]
    for reason, number in log.refusals.most_common():
        sys.stderr.write(f"{number} refused: {reason}\n")
    if understood == 0:
        raise EdgeRuntimeError(f"{file}: no line of tegrastats or jtop")


def _write(log: "HealthLog", stream: TextIO) -> None:
    from edge_runtime.health.health_log import read_lines

    for line in log.lines(read_lines(stream)):
        if line.kind == "refused":
            record = {"line": line.number, "refused": line.record["reason"]}
        else:
            record = {"line": line.number, "kind": line.kind, **line.record}
        sys.stdout.write(json.dumps(record) + "\n")
