"""`edge-runtime config`: check a configuration file, describe the format, or write a first one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edge_runtime.config import LoadedConfig, Problem
    from edge_runtime.config.checks import Finding

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Check, describe or write a configuration file.",
)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> int:
    """Say whether FILE is a valid configuration; if not, every reason with its line.

    References to secrets are resolved. Where a model's manifest can be read, the labels of rules and the class of
    data are held against it. Nothing is run and no camera is opened: `edge-runtime preflight` does that.
    """
    from edge_runtime.cli.manifests import manifest_problems, readable_manifests
    from edge_runtime.cli.report import problem_records, say, write_json
    from edge_runtime.config import InvalidConfig, load_config

    warnings: tuple[Problem, ...] = ()
    try:
        loaded = load_config(file)
        manifests, unreadable = readable_manifests(loaded)
        warnings = (*loaded.warnings, *loaded.locate(unreadable))
        loaded.refuse([*manifest_problems(loaded, manifests), *_guard_problems(loaded)])
    except InvalidConfig as error:
        if as_json:
            problems = problem_records(error.problems)
            write_json(
                {"valid": False, "problems": problems, "warnings": problem_records(warnings), "digest": None}
            )
        else:
            for line in error.lines():
                say(line)
        return error.exit_code
    if as_json:
        write_json(
            {
                "valid": True,
                "problems": [],
                "warnings": problem_records(warnings),
                "digest": loaded.digest,
            }
        )
        return 0
    for warning in warnings:
        say(f"warning: {warning.show(str(file))}")
    cameras, rules = (
        loaded.config.cameras,
        sum(len(camera.rules) for camera in loaded.config.cameras.values()),
    )
    counts = f"cameras: {len(cameras)}, models: {len(loaded.config.models)}, rules: {rules}"
    typer.echo(f"{file}: valid; {counts}; {loaded.digest}")
    return 0


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors.

    With the YAML extension of an editor, a first line `# yaml-language-server: $schema=FILE` uses it.
    """
    from edge_runtime.cli.report import write_json
    from edge_runtime.config.schema import json_schema

    write_json(json_schema(), indent=2)


@app.command()
def init(
    camera: Annotated[
        str | None,
        typer.Option(metavar="URL_OR_PATH", help="URL, /dev/videoN, video file, folder of images, pipeline."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="PACKAGE", help="Folder or archive of a model package.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="How sensitive what the camera sees is: public, internal, confidential or restricted.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--object", metavar="LABEL", help="What the first rule looks for.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the camera.")] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The configuration to write.")] = Path(
        "site.yaml"
    ),
    still: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to save a picture; NAME.jpg beside the configuration."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: take the defaults, accept the model's licence.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    probe: Annotated[bool, typer.Option(help="Open the camera and save a picture.")] = True,
    timeout: Annotated[
        float, typer.Option(min=1, max=300, help="Seconds until a picture must be there.")
    ] = 20,
) -> int:
    """Write a working, labelled configuration for one camera, and check it.

    Asks for what is not given. Opens the camera, prints its size, frame rate and codec, and saves a picture.
    Credentials go to a file that only its owner can read, never into the configuration.
    """
    from edge_runtime.cli.first_config import Request, write_first_config

    write_first_config(
        Request(
            camera=camera,
            model=model,
            label=label,
            target=target,
            name=name,
            out=out,
            still=still,
            ask=not yes,
            force=force,
            look=probe,
            timeout_s=timeout,
        )
    )
    return 0


def _guard_problems(loaded: "LoadedConfig") -> "list[Finding]":
    """What the files about the body say that the guard cannot use."""
    from edge_runtime.node.guarding import guard_problems
    from edge_runtime.node.places import state_of

    return guard_problems(loaded, state_of(loaded)) if loaded.config.guard is not None else []
