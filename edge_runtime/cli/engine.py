"""`edge-runtime engine`: build TensorRT engines, list them, look at one, verify them, and clear them away."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.plugin_option import Plugins, named_plugins
from edge_runtime.cli.state_option import Json, State, existing_state

if TYPE_CHECKING:
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
    from edge_runtime.cli.engine_build import build_targets, built_record, say_built
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
    from edge_runtime.cli.engine_screen import case_record, entry_record, list_lines
    from edge_runtime.cli.report import write_json

    store = _store(state)
    entries, cases, usage = store.entries(), store.quarantined(), store.usage()
    refused = {
        key: why for key in store.failures.failing_keys() if (why := store.failures.refusal(key)) is not None
    }
    if as_json:
        write_json(
            {
                "engines": [entry_record(entry) for entry in entries],
                "quarantined": [case_record(case) for case in cases],
                "refused": refused,
                "bytes": usage.engines,
                "quota_bytes": usage.quota,
            }
        )
        return
    for line in list_lines(entries, cases, refused):
        typer.echo(line)


@app.command()
def inspect(key: Key, state: State = None, as_json: Json = False) -> None:
    """Say all that is known of one engine: what it was built for, how it was built, who needs it."""
    from edge_runtime.cli.engine_screen import entry_record, inspect_lines
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
    for line in inspect_lines(entry):
        typer.echo(line)


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
    from edge_runtime.cli.engine_screen import SHOWN
    from edge_runtime.cli.engine_verify import verify_engines
    from edge_runtime.cli.report import write_json
    from edge_runtime.document import visible

    store = _store(state)
    wanted = [_whole_key(store, key) for key in keys or ()] or [entry.key for entry in store.entries()]
    found, note = verify_engines(store, wanted, package or (), named_plugins(plugin or ()))
    if as_json:
        write_json({"engines": [each.record() for each in found], "note": note})
    else:
        for each in found:
            typer.echo(visible(f"{each.key[:SHOWN]:12}  {each.problem or each.done}"))
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
    from edge_runtime.cli.engine_screen import SHOWN, mib
    from edge_runtime.cli.report import write_json
    from edge_runtime.document import visible

    if config is None:
        store = _store(state)
        done = store.prune(dry_run=dry_run)
    else:
        from edge_runtime.cli.engine_build import needed_by
        from edge_runtime.engines.holds import Role

        needed = needed_by(config, state)
        store = _store(needed.state)
        # what runs lets go by itself at the next start: the file may be another device's
        others = store.keep_only(needed.models, (Role.LAST_GOOD, Role.ASSIGNED), dry_run=dry_run)
        done = store.prune(needed.keys, without=others, dry_run=dry_run)
    cases = len(store.quarantined()) if quarantine else 0
    if quarantine and not dry_run:
        store.empty_quarantine()
        store.failures.forget()
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
        typer.echo(f"{entry.key[:SHOWN]:12}  {word}, {mib(entry.bytes)} MiB")
    for kept in done.kept:
        typer.echo(visible(f"{kept.entry.key[:SHOWN]:12}  kept: {kept.why}"))
    if quarantine:
        typer.echo(f"{cases} in quarantine {word}")
    typer.echo(f"{mib(done.freed_bytes)} MiB {'would be ' if dry_run else ''}freed")


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
