"""`edge-runtime engine`: build TensorRT engines, list them, look at one, verify them, and clear them away."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge_runtime.cli.state_option import Json, State, existing_state

if TYPE_CHECKING:
    from edge_runtime.engines.listing import Entry
    from edge_runtime.engines.store import EngineStore

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Build TensorRT engines, list, inspect, verify and prune them.",
)

Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Of the engine, or its first letters.", show_default=False)
]

Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Plugin library of a package; a configuration names its own.",
        show_default=False,
    ),
]

_SHOWN = 12


@app.command()
def build(
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="A configuration, or a model package.", show_default=False),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this model of the configuration.", show_default=False),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=256, help="Images in one run at most, for a package.")] = 8,
    plugin: Plugins = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=1, max=86_400, metavar="SECONDS", help="Instead of engines.build_budget.", show_default=False
        ),
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> int:
    """Build the engines of a configuration's models, or of a package, and prove them.

    For each model with tensorrt among its providers. An engine that is there and sound is not built again; failures
    that are remembered are forgotten first. Progress is on stderr.
    """
    from edge_runtime.cli.engine_build import build_targets, built_record, named_plugins, say_built
    from edge_runtime.cli.report import write_json
    from edge_runtime.engines.wanted import EngineOptions

    found = build_targets(
        target,
        names=tuple(model or ()),
        options=EngineOptions(batch=batch, plugins=named_plugins(plugin or ())),
        budget=budget,
        state=state,
    )
    if as_json:
        write_json({"built": [built_record(each) for each in found]})
    for each in found:
        say_built(each, quiet=as_json)
    return 1 if any(each.problem for each in found) else 0


@app.command("list")
def list_engines(state: State = None, as_json: Json = False) -> None:
    """List engines, those that were taken out of use, and models that are not built again for now."""
    from edge_runtime.cli.report import write_json

    store = _store(state)
    entries, cases, usage = store.entries(), store.quarantined(), store.usage()
    refused = {key: why for key in store.failing_keys() if (why := store.refusal(key)) is not None}
    if as_json:
        write_json(
            {
                "engines": [entry_record(entry) for entry in entries],
                "quarantined": [
                    {
                        "key": None if case.reason is None else case.reason.key,
                        "reason": None if case.reason is None else case.reason.reason,
                        "at": None if case.reason is None else case.reason.at,
                        "bytes": case.bytes,
                    }
                    for case in cases
                ],
                "refused": refused,
                "bytes": usage.engines,
                "quota_bytes": usage.quota,
            }
        )
        return
    if not entries:
        typer.echo("no engine is stored")
    else:
        typer.echo(
            f"{'KEY':12}  {'WEIGHTS':12}  {'PRECISION':12}  {'BATCH':>5}  {'MIB':>6}  {'SM':>5}  TENSORRT"
        )
    for entry in entries:
        typer.echo(_row(entry))
        for hold in entry.holds:
            typer.echo(f"{'':12}  {hold}")
        if entry.problem is not None:
            typer.echo(f"{'':12}  cannot be used: {entry.problem}")
    for case in cases:
        key = "unknown" if case.reason is None else case.reason.key[:_SHOWN]
        why = "its record cannot be read" if case.reason is None else case.reason.reason
        typer.echo(f"{key:12}  in quarantine: {why}")
    for key, why in refused.items():
        typer.echo(f"{key[:_SHOWN]:12}  not built: {why}")


@app.command()
def inspect(key: Key, state: State = None, as_json: Json = False) -> None:
    """Say all that is known of one engine: what it was built for, how it was built, who needs it."""
    from edge_runtime.cli.report import write_json
    from edge_runtime.errors import EdgeRuntimeError

    store = _store(state)
    entry = store.inspect(_whole_key(store, key))
    if entry is None:
        raise EdgeRuntimeError(
            f"there is no engine {key}; `edge-runtime engine list` names those that are there"
        )
    if as_json:
        write_json(entry_record(entry))
        return
    typer.echo(f"key           {entry.key}")
    manifest = entry.manifest
    if manifest is not None:
        recipe, machine = manifest.recipe, manifest.recipe.machine
        typer.echo(f"built for     {machine.gpu}, SM {machine.sm}, TensorRT {machine.tensorrt}")
        typer.echo(
            f"              {'L4T ' + machine.l4t if machine.l4t else 'driver ' + (machine.driver or 'unknown')}"
        )
        typer.echo(f"weights       {recipe.weights_sha256}")
        typer.echo(f"precision     {recipe.precision}, {', '.join(recipe.flags)}")
        for label, tensors in (("input", recipe.inputs), ("output", recipe.outputs)):
            for tensor in tensors:
                typer.echo(f"{label:13} {tensor}")
        for profile in recipe.profiles:
            typer.echo(f"sizes         {profile}")
        for name, digest in recipe.plugins.items():
            typer.echo(f"plugin        {name}, sha256 {digest}")
        typer.echo(
            f"built         {manifest.built_at} in {manifest.build.seconds:.1f} s, by release {manifest.release}"
        )
        typer.echo(f"size          {manifest.engine_bytes} bytes, sha256 {manifest.engine_sha256}")
        typer.echo(f"scratch       {manifest.build.device_memory_bytes} bytes of device memory")
        for line in manifest.build.log:
            typer.echo(f"TensorRT said {line}")
    for hold in entry.holds:
        typer.echo(f"needed        {hold}")
    if entry.problem is not None:
        typer.echo(f"problem       {entry.problem}")


@app.command()
def verify(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="All without one.", show_default=False)
    ] = None,
    package: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Also compare with the golden vectors of this package.", show_default=False
        ),
    ] = None,
    plugin: Plugins = None,
    state: State = None,
    as_json: Json = False,
) -> int:
    """Read engines and compare them with what was written; where TensorRT is installed, load them too.

    Nothing is moved or built. An engine that is not sound is taken out of use when a model asks for it.
    """
    from edge_runtime.cli.engine_build import named_plugins
    from edge_runtime.cli.engine_verify import verify_engines
    from edge_runtime.cli.report import write_json

    store = _store(state)
    wanted = [_whole_key(store, key) for key in keys or ()] or [entry.key for entry in store.entries()]
    found, note = verify_engines(store, wanted, package or (), named_plugins(plugin or ()))
    if as_json:
        write_json({"engines": [each.record() for each in found], "note": note})
    else:
        for each in found:
            typer.echo(f"{each.key[:_SHOWN]:12}  {each.problem or each.done}")
        if not found:
            typer.echo("no engine is stored")
        if note:
            typer.echo(note)
    return 1 if any(each.problem for each in found) else 0


@app.command()
def prune(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Keep the engines of its models, and let those of all other models go.",
            show_default=False,
        ),
    ] = None,
    quarantine: Annotated[
        bool,
        typer.Option(
            "--quarantine", help="Also clear the quarantine, and forget what failed: it may be tried again."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")
    ] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Remove engines that nobody needs. One that runs, was the last good one, or is assigned stays."""
    from edge_runtime.cli.report import write_json

    assigned: tuple[str, ...] = ()
    store = _store(state)
    if config is not None:
        from edge_runtime.cli.engine_build import assigned_keys, configured_models
        from edge_runtime.engines.holds import Role

        assigned = assigned_keys(config, state)
        if not dry_run:
            # what runs lets go by itself at the next start: the file may be another device's
            store.keep_only(configured_models(config), (Role.LAST_GOOD, Role.ASSIGNED))
    done = store.prune(assigned, dry_run=dry_run)
    cases = len(store.quarantined()) if quarantine else 0
    if quarantine and not dry_run:
        store.empty_quarantine()
        store.forget_failures()
    if as_json:
        write_json(
            {
                "removed": [entry.key for entry in done.removed],
                "kept": {kept.entry.key: kept.why for kept in done.kept},
                "garbage": list(done.garbage),
                "freed_bytes": done.freed_bytes,
                "quarantine_cleared": cases,
                "dry_run": dry_run,
            }
        )
        return
    word = "would be removed" if dry_run else "removed"
    for entry in done.removed:
        typer.echo(f"{entry.key[:_SHOWN]:12}  {word}, {_mib(entry.bytes)} MiB")
    for kept in done.kept:
        typer.echo(f"{kept.entry.key[:_SHOWN]:12}  kept: {kept.why}")
    if quarantine:
        typer.echo(f"{cases} in quarantine {word}")
    typer.echo(f"{_mib(done.freed_bytes)} MiB {'would be ' if dry_run else ''}freed")


def entry_record(entry: "Entry") -> dict[str, Any]:
    """An engine as plain data."""
    return {
        "key": entry.key,
        "bytes": entry.bytes,
        "problem": entry.problem,
        "holds": [{"model": hold.model, "role": hold.role.value} for hold in entry.holds],
        "manifest": None if entry.manifest is None else entry.manifest.model_dump(mode="json"),
    }


def _row(entry: "Entry") -> str:
    if entry.manifest is None:
        return f"{entry.key[:_SHOWN]:12}  {'-':12}  {'-':12}  {'-':>5}  {_mib(entry.bytes):>6}  {'-':>5}  -"
    recipe = entry.manifest.recipe
    return (
        f"{entry.key[:_SHOWN]:12}  {recipe.weights_sha256[:_SHOWN]:12}  {recipe.precision:12}  {recipe.batch:>5}  "
        f"{_mib(entry.bytes):>6}  {recipe.machine.sm:>5}  {recipe.machine.tensorrt}"
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f}"


def _store(option: Path | None) -> "EngineStore":
    """The engines of a state directory that is there."""
    from edge_runtime.engines.store import EngineStore

    return EngineStore(existing_state(option).engines)


def _whole_key(store: "EngineStore", start: str) -> str:
    """The one key that begins so."""
    from edge_runtime.errors import EdgeRuntimeError

    if not start:
        raise EdgeRuntimeError("no key was given; `edge-runtime engine list` names those that are there")
    found = [entry.key for entry in store.entries() if entry.key.startswith(start.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise EdgeRuntimeError(
            f"there is no engine {start}; `edge-runtime engine list` names those that are there"
        )
    raise EdgeRuntimeError(f"{len(found)} engines begin with {start}: type more of the key")
