"""`edge-runtime update`: what the fleet assigned to this device, what became of it, and what keeps it waiting."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge_runtime.cli.state_option import Json, State, existing_state

if TYPE_CHECKING:
    from edge_runtime.state import StateDirectory

EXIT_NOT_RUNNING, EXIT_TAKEN_BACK, EXIT_INCONSISTENT = 1, 3, 4

_SHOWN, _FINGERPRINT = 12, 32
"""Characters of a digest that people look at, and of the one that they compare: as many as `fleet keys` shows."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Look at the releases that the fleet assigned, and keep them waiting.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the lock: letters, digits, dots, - and _.")]


@app.command()
def status(state: State = None, as_json: Json = False) -> int:
    """Say what runs, what is under way and why it waits, and how the last assignments ended.

    Where no process of updates answers, what it left on the disk is told. Exit code 3 says that the newest
    assignment of a slot was refused or taken back: what ran before it runs. 4 says that it could not be taken back.
    """
    from edge_runtime.cli.report import write_json

    where = existing_state(state)
    found = _standing(where)
    if as_json:
        write_json(found)
    else:
        for line in status_lines(found):
            typer.echo(line)
    return exit_code(found)


@app.command()
def history(state: State = None, as_json: Json = False) -> None:
    """List assignments that ended, the oldest first: how, why, and as what the device was left."""
    from edge_runtime.cli.report import write_json
    from edge_runtime.updates.process.standing import history as ended

    found = ended(existing_state(state).updates)
    if as_json:
        write_json({"ended": found})
        return
    if not found:
        typer.echo("no assignment has ended here")
    for one in found:
        typer.echo(_ended_line(one))


@app.command()
def lock(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; it is told to the fleet.")],
    state: State = None,
) -> None:
    """Keep new releases from being put in use, until `unlock`; a restart does not end it.

    What runs, and what is on probation, goes on; so does fetching. An application that wants a lock which ends with
    it runs under `flock -s DIR/updates/lock`.
    """
    from edge_runtime.clock import SystemClock
    from edge_runtime.updates.process.locks import lock as set_lock

    root = existing_state(state).updates
    set_lock(root, name, reason, SystemClock().wall().isoformat())
    typer.echo(f"locked: no new release is put in use until `edge-runtime update unlock {name}`")


@app.command()
def unlock(name: Name, state: State = None) -> int:
    """Remove a lock that a person set."""
    from edge_runtime.updates.process.locks import persons_locks
    from edge_runtime.updates.process.locks import unlock as remove

    root = existing_state(state).updates
    if not remove(root, name):
        sys.stderr.write(f"error: there is no lock {name}\n")
        return 1
    others = [one.name for one in persons_locks(root)]
    typer.echo(f"unlocked; still locked by {', '.join(others)}" if others else "unlocked")
    return 0


@app.command()
def trust(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The fleet's root.json; compare its fingerprint.")
    ],
    state: State = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of another root: what it trusted is forgotten.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Give this device the fleet's root: the one file that it cannot verify by another.

    Enrolment does it; this is for a device that was enrolled before its fleet signed releases, or whose root has to
    be another. `fleet keys export --root FILE` writes it. Compare the fingerprint with the one that
    `fleet keys inspect` shows where the root was made.
    """
    from edge_runtime.cli.report import write_json
    from edge_runtime.errors import ConfigError
    from edge_runtime.protocol.metadata_limits import MAX_ROOT_BYTES
    from edge_runtime.updates.trust.bootstrap import write_root

    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_ROOT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    found = write_root(existing_state(state).updates, data, replace=replace)
    if found is None:
        sys.stderr.write("error: this device trusts another root; --replace takes its place\n")
        return 1
    if as_json:
        write_json({"version": found.version, "fingerprint": found.fingerprint, "threshold": found.threshold})
        return 0
    typer.echo(
        f"trusted: root {found.version}, fingerprint {found.fingerprint[:_FINGERPRINT]}\n"
        f"  signed by  {found.threshold} of {found.keys} keys"
    )
    return 0


def _standing(where: "StateDirectory") -> dict[str, Any]:
    from edge_runtime.updates.process.socket import NoUpdates, ask
    from edge_runtime.updates.process.standing import of_files

    try:
        return ask(where.updates_socket, "status")
    except NoUpdates as error:
        return {**of_files(where.updates), "trouble": str(error)}


def exit_code(found: dict[str, Any]) -> int:
    """What the exit code says of a standing."""
    if not found["running"]:
        return EXIT_NOT_RUNNING
    newest = {one["slot"]: one for one in found["ended"]}.values()
    if any(one["left"] == "inconsistent" for one in newest):
        return EXIT_INCONSISTENT
    if any(one["state"] in ("refused", "reverted") for one in newest):
        return EXIT_TAKEN_BACK
    return 0


def status_lines(found: dict[str, Any]) -> list[str]:
    """A standing as a screen."""
    lines = [] if found["running"] else ["updates do not run here; this is what is on the disk"]
    if found.get("trouble") is not None and found["running"]:
        lines.append(f"trouble   {found['trouble']}")
    if found.get("journal_lost") is not None:
        lines.append(f"journal   was lost ({found['journal_lost']}); what runs stayed")
    for name, slot in found["slots"].items():
        trial = ", on trial" if slot["on_trial"] else ""
        lines.append(f"{name:<9} {_release(slot['active'])}{trial}; before it {_release(slot['last_good'])}")
    for work in found["works"]:
        why = f": {work['code']}, {work['text']}" if work["code"] else ""
        lasts = "" if work["for_s"] is None else f" for {work['for_s']} s"
        lines.append(f"#{work['seq']} {work['action']} {work['target'] or ''}  {work['state']}{lasts}{why}")
    lines += [
        f"#{one['seq']} is not taken up yet: {one['code']}, {one['text']}" for one in found.get("waiting", ())
    ]
    if found.get("obstacle") is not None:
        lines.append(f"waits     {found['obstacle']}: {found['obstacle_text']}")
    if found.get("window_open") is False:
        lines.append("window    closed")
    lines += [_ended_line(one) for one in found["ended"]]
    return lines


def _ended_line(one: dict[str, Any]) -> str:
    why = f": {one['code']}, {one['text']}" if one["code"] else ""
    return f"#{one['seq']} {one['action']} {one['target'] or ''}  {one['state']}, left {one['left']}{why}"


def _release(sha256: str | None) -> str:
    return "what it was set up with" if sha256 is None else f"release {sha256[:_SHOWN]}"
