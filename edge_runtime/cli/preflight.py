"""`edge-runtime preflight`: may a device with this configuration go into the field?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.cli.manifests import manifest_problems
from edge_runtime.clock import NS_PER_S, SystemClock, WallLabel
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.checks import Finding
from edge_runtime.config.node import DeviceProfile
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.packages import ModelManifest, open_package, require_licence
from edge_runtime.telemetry import configure_logging


@dataclass(slots=True)
class Findings:
    """What stands against the device going into the field, and what to know before it does."""

    problems: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)


def preflight(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="The configuration file.", show_default=False)
    ],
    cameras: Annotated[bool, typer.Option("--cameras", help="Open every camera and take a picture.")] = False,
    timeout: Annotated[float, typer.Option(min=1, max=300, help="Seconds for each camera.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> int:
    """Say whether a device with CONFIG may go into the field.

    The device's limits must be stated, every model package must open with an accepted licence and know the
    labels that rules ask for, and no camera may see more sensitive things than its model may. Cameras without a
    data_class and models older than their max_age_days are named.
    """
    from edge_runtime.cli.report import problem_records, say, write_json

    configure_logging("critical")  # what a camera does on the way is said once, at the end
    loaded = load_config(config)
    found = Findings()
    found.problems += profile_problems(loaded)
    manifests = _open_models(loaded, found)
    found.problems += manifest_problems(loaded, manifests)
    found.warnings += age_warnings(loaded, manifests, SystemClock().wall())
    if cameras:
        found.problems += _camera_problems(loaded, timeout)
    problems = loaded.locate(found.problems)
    warnings = (*loaded.warnings, *loaded.locate(found.warnings))
    if as_json:
        write_json(
            {
                "fit": not problems,
                "problems": problem_records(problems),
                "warnings": problem_records(warnings),
            }
        )
        return 1 if problems else 0
    for warning in warnings:
        say(f"warning: {warning.show(str(config))}")
    for problem in problems:
        say(problem.show(str(config)))
    typer.echo(f"{config}: {'unfit' if problems else 'fit'} for the field")
    return 1 if problems else 0


def profile_problems(loaded: LoadedConfig) -> Iterator[Finding]:
    """What is not known of the five limits: power, heat, sensor bandwidth, link and response deadline."""
    if loaded.config.device.profile is None:
        for name in DeviceProfile.model_fields:
            yield ("device", "profile", name), "must be stated before the device goes into the field"


def _open_models(loaded: LoadedConfig, found: Findings) -> dict[str, ModelManifest]:
    """Manifests of the packages that open; the others are problems."""
    manifests: dict[str, ModelManifest] = {}
    for name in loaded.config.models:
        manifest, problem = _open_model(loaded, name)
        if manifest is not None:
            manifests[name] = manifest
        if problem is not None:
            found.problems.append((("models", name, "package"), problem))
    return manifests


def _open_model(loaded: LoadedConfig, name: str) -> tuple[ModelManifest | None, str | None]:
    """The manifest, if the package opens, and what is wrong with it, if anything is."""
    model, manifest = loaded.config.models[name], None
    try:
        manifest = open_package(loaded.resolve(model.package)).manifest
        require_licence(manifest, model.accept_licences, model=name)
    except EdgeRuntimeError as error:
        return manifest, str(error)
    return manifest, None


def age_warnings(
    loaded: LoadedConfig, manifests: dict[str, ModelManifest], now: WallLabel
) -> Iterator[Finding]:
    """R001-09: what a deployed model can do is fixed, so its age is named.

    Args:
        loaded: the configuration.
        manifests: of the packages that opened, by the model's name.
        now: wall time as a label; an unsynchronised clock is no judge.
    """
    for name, manifest in manifests.items():
        limit = loaded.config.models[name].max_age_days
        if limit is None:
            continue
        at = ("models", name, "max_age_days")
        if not now.synced:
            yield at, "the clock is not synchronised, so the model's age cannot be judged"
            continue
        today = datetime.fromtimestamp(now.unix_ns / NS_PER_S, tz=timezone.utc).date()
        age = (today - date.fromisoformat(manifest.released)).days
        if age > limit:
            yield at, f"the model was released {age} days ago ({manifest.released}), more than {limit}"


def _camera_problems(loaded: LoadedConfig, timeout_s: float) -> Iterator[Finding]:
    from edge_runtime.cli.probe import probe

    for name, camera in loaded.config.cameras.items():
        reason = None
        try:
            if probe(name, camera.source, loaded.base, timeout_s).frame.dark:
                reason = "delivers only dark pictures: is its lens covered?"
        except EdgeRuntimeError as error:
            reason = str(error)
        if reason is not None:
            yield ("cameras", name, "source"), reason
