"""`edge-runtime config`: check a configuration file, describe the format, or write a first one."""

from pathlib import Path
from typing import Annotated

import typer

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

    References to secrets are resolved. Models and cameras are not opened: `edge-runtime preflight` does that.
    """
    from edge_runtime.cli.report import problem_records, say, write_json
    from edge_runtime.config import InvalidConfig, load_config

    try:
        loaded = load_config(file)
    except InvalidConfig as error:
        if as_json:
            write_json(
                {"valid": False, "problems": problem_records(error.problems), "warnings": [], "digest": None}
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
                "warnings": problem_records(loaded.warnings),
                "digest": loaded.digest,
            }
        )
        return 0
    for warning in loaded.warnings:
        say(f"warning: {warning.show(str(file))}")
    cameras, rules = (
        loaded.config.cameras,
        sum(len(camera.rules) for camera in loaded.config.cameras.values()),
    )
    typer.echo(
        f"{file}: valid; cameras: {len(cameras)}, models: {len(loaded.config.models)}, rules: {rules}; "
        f"{loaded.digest}"
    )
    return 0


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors.

    With the YAML extension of an editor, a first line `# yaml-language-server: $schema=FILE` uses it.
    """
    from edge_runtime.cli.report import write_json
    from edge_runtime.config.schema import json_schema

    write_json(json_schema(), indent=2)
