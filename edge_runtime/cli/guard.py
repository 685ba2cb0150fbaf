"""`edge-runtime guard`: try it, explain it, speak to it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.state_option import Json, State, repeated

if TYPE_CHECKING:
    from edge_runtime.cli.guard_orders import Guard

RECOVERY_S = 8.0
"""After an acknowledgement the guard is watched for so long until it stands by."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Speak to the guard that holds the permission to move, explain it, try it.",
)
keys = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Keys of those who may acknowledge what is latched.",
)
app.add_typer(keys, name="key")


def _conditions(incomplete: str) -> list[str]:
    """Names of conditions that begin so, for the shell."""
    from edge_runtime.guard.conditions import BY_BIT

    return [condition.value for condition in BY_BIT if condition.value.startswith(incomplete)]


ProfileFile = Annotated[
    Path | None, typer.Option("--profile", metavar="FILE", help="Profile of the body, YAML or JSON.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration whose guard section names the profile."),
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", metavar="FILE", help="Holds the passphrase of the key in one line."),
]


@app.command()
def explain(
    conditions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONDITION]...", help="Tell all of these.", autocompletion=_conditions),
    ] = None,
    profile: ProfileFile = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> int:
    """Say what each condition would do on a body.

    When it counts, what it leads to, how that is left and who says so; how far a stop goes; why the guard would
    refuse the profile. Without --profile and --config it is about the built-in body that cannot move.
    """
    from edge_runtime.cli import guard_explain as told
    from edge_runtime.cli.guard_profile import chosen_body
    from edge_runtime.cli.report import write_json
    from edge_runtime.guard.explain import explained

    body = chosen_body(profile, config)
    chosen = told.conditions_named(conditions or [])
    if as_json:
        write_json(told.explain_record(body, chosen))
    elif conditions:
        for number, condition in enumerate(chosen):
            lines = told.detail_lines(explained(condition, body.profile))
            typer.echo(("\n" if number else "") + "\n".join(lines))
    else:
        for line in (*told.refusal_lines(body), *told.overview_lines(body.profile)):
            typer.echo(line)
    return 1 if body.refused else 0


@app.command()
def ack(
    latch: Annotated[
        str | None, typer.Option(metavar="ID", help="The latch to leave; edge-runtime status shows it.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of whoever acknowledges, PEM.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the key in the configuration; that of its file when not given."),
    ] = None,
    note: Annotated[str, typer.Option(help="Why it is safe to go on; it is signed with the rest.")] = "",
    device: Annotated[
        str | None, typer.Option(help="Id of the device, where it is signed on another machine.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the signed record here, and ask no guard."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Present this record, signed before.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    state: State = None,
) -> None:
    """Sign that it is safe to leave a latch, and present it to the guard.

    It says what came of it. On a machine that is not the device: --latch ID --device NAME --key FILE --out RECORD
    there, and --record RECORD on the device. Motion is not permitted by this: `edge-runtime guard arm` is asked
    for afterwards.
    """
    from edge_runtime.cli import guard_keys
    from edge_runtime.errors import ConfigError

    if record is not None:
        if any(value is not None for value in (latch, key, name, device, out, passphrase_file)) or note:
            raise ConfigError("--record holds all that is said: give it alone, or with --state")
        signed = guard_keys.read_record(record)
        _present(signed, guard_keys.named_in(signed), state)
        return
    if latch is None:
        raise ConfigError(
            "name what you acknowledge with --latch ID; edge-runtime status shows what is latched"
        )
    if key is None:
        raise ConfigError("sign it with --key FILE; edge-runtime guard key new makes a key")
    if (out is None) != (device is None):
        raise ConfigError("--device and --out go together: who signs elsewhere has to say for which device")
    called = guard_keys.key_name(name, key)
    private = guard_keys.read_key(key, passphrase_file)
    if out is not None and device is not None:
        guard_keys.write_record(out, guard_keys.signed_record(private, called, latch, device, note))
        typer.echo(f"{out}: present it on {device} with edge-runtime guard ack --record {out.name}", err=True)
        return
    found = _guard(state).status()["device"]
    _present(guard_keys.signed_record(private, called, latch, found, note), latch, state)


@app.command()
def arm(state: State = None) -> None:
    """Ask for permission to move. It is given in STANDBY alone, when everything is evaluated and well."""
    from edge_runtime.cli.guard_orders import Refused, refusal
    from edge_runtime.guard.memory import PERMITTING

    guard = _guard(state)
    if guard.status()["state"] in PERMITTING:
        typer.echo("it may move already")
        return
    status = guard.order("arm")
    if status["state"] not in PERMITTING:
        why = refusal(status, "the request to arm is refused") or f"the state is {status['state']}"
        raise Refused(why)
    typer.echo(f"{status['state']}: it may move")


@app.command()
def disarm(state: State = None) -> None:
    """Withdraw the permission to move, without latching anything."""
    from edge_runtime.cli.guard_orders import Refused
    from edge_runtime.guard.memory import PERMITTING

    status = _guard(state).order("disarm")
    if status["state"] in PERMITTING:
        raise Refused(f"the state is {status['state']} all the same; ask again, or press the emergency stop")
    typer.echo(f"{status['state']}: nothing may move")


@app.command()
def reset(
    latch: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The latch that is meant; asked for on a terminal when not given."),
    ] = None,
    state: State = None,
) -> None:
    """Say that somebody stands at the machine and has looked. Some latches ask for it before an acknowledgement.

    It shows what is latched and asks for its id, so that nobody resets what they have not read.
    """
    import sys

    from edge_runtime.cli.guard_orders import Refused, steps_out, taken_by
    from edge_runtime.errors import ConfigError
    from edge_runtime.guard.explain import meaning
    from edge_runtime.guard.severity import Clears

    guard = _guard(state)
    status = guard.status()
    held = status["latch"]
    if held is None:
        raise Refused(f"nothing is latched: the state is {status['state']}")
    if taken_by(held, status["state"]) is not Clears.RESET_AND_ACK:
        raise Refused(f"latch {held['id']} needs no reset: {steps_out(status, repeated(state))[0]}")
    if latch is None:
        if not sys.stdin.isatty():
            raise ConfigError("name the latch with --latch ID, or answer at a terminal")
        typer.echo(f"{status['state']}, latch {held['id']}, on {status['device']}:", err=True)
        for text in map(meaning, held["causes"]):
            typer.echo(f"  {text}", err=True)
        latch = str(typer.prompt("You stand at it and have looked? Then type the latch's id", err=True))
    if latch.strip() != held["id"]:
        raise Refused(f"{latch.strip()[:40]} is not what is latched; that is {held['id']}")
    after = guard.order("reset")
    if after["latch"] is None or after["latch"]["id"] != held["id"]:
        raise Refused("something else is latched by now; look at edge-runtime status")
    typer.echo(f"reset; next: {steps_out(after, repeated(state))[1]}")


@app.command()
def simulate(profile: ProfileFile = None, config: ConfigFile = None) -> int:
    """Trip conditions and see what the guard would do.

    It is the guard's own state machine, and nothing real is touched. On a terminal it is a page with a key for
    each condition. Otherwise it reads commands from standard input, one a line, and prints a line for each
    change; `help` lists them.
    """
    from edge_runtime.cli.guard_profile import chosen_body
    from edge_runtime.cli.guard_simulator import run

    return run(chosen_body(profile, config))


@keys.command("new")
def key_new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write the private key; must not exist.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Name in the configuration; that of the file when not given.")
    ] = None,
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase to encrypt it with.")
    ] = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Make a key to acknowledge with, and print the line for `guard.keys` of the configuration.

    The private key stays with whoever acknowledges; a device needs the printed line alone.
    """
    from edge_runtime.cli import guard_keys

    called = guard_keys.key_name(name, file)
    secret = None
    if passphrase_file is not None:
        secret = guard_keys.first_line(passphrase_file)
    elif passphrase:
        secret = str(typer.prompt("New passphrase", hide_input=True, confirmation_prompt=True, err=True))
    public = guard_keys.new_key(file, secret)
    typer.echo(f"{file} is made; put this under guard.keys:", err=True)
    typer.echo(f"{called}: {public}")


@keys.command("show")
def key_show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Private key, PEM.")],
    name: Annotated[
        str | None, typer.Option(help="Name in the configuration; that of the file when not given.")
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Print the line for `guard.keys` of a key that exists."""
    from edge_runtime.cli import guard_keys

    called = guard_keys.key_name(name, file)
    typer.echo(f"{called}: {guard_keys.public_hex(guard_keys.read_key(file, passphrase_file))}")


@app.command()
def selftest(
    trials: Annotated[int, typer.Option(help="Of each fault.", min=1, max=1000)] = 10,
    load: Annotated[int, typer.Option(help="Busy processes beside it, 0 to 64.", min=0, max=64)] = 0,
    real_time: Annotated[
        bool, typer.Option(" /--no-real-time", help="Measure without a real-time schedule.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Break workers and the guard, and say how long it took to see.

    Nothing of the device is touched: a guard, a worker and a motion gate of its own run in a temporary folder.
    """
    from edge_runtime.guard.selftest.trials import run

    report = run(trials, load=load, real_time=real_time, told=lambda text: typer.echo(text, err=True))
    if as_json:
        from edge_runtime.cli.report import write_json

        write_json(report.to_json())
        return
    for line in report.lines():
        typer.echo(line)


def _guard(state: Path | None) -> "Guard":
    from edge_runtime.cli.guard_orders import Guard
    from edge_runtime.cli.state_option import existing_state
    from edge_runtime.clock import SystemClock

    return Guard(existing_state(state).guard_socket, SystemClock())


def _present(record: dict[str, str], latch: str | None, state: Path | None) -> None:
    """Present an acknowledgement, and say what came of it."""
    from edge_runtime.cli.guard_orders import Refused, steps_out
    from edge_runtime.guard.explain import meaning
    from edge_runtime.guard.memory import State

    guard = _guard(state)
    before = guard.status()
    if before["latch"] is None:
        raise Refused(f"nothing is latched: the state is {before['state']}")
    if latch is not None and before["latch"]["id"] != latch:
        raise Refused(f"{latch[:40]} is not what is latched; that is {before['latch']['id']}")
    guard.acknowledge(record)
    typer.echo(f"latch {before['latch']['id']} is acknowledged by {record['key']}")
    after = guard.recovered(RECOVERY_S)
    if after["latch"] is not None:
        why = "; ".join(map(meaning, after["latch"]["causes"]))
        raise Refused(f"it latched again, {after['latch']['id']}: {why}")
    typer.echo(after["state"] + "".join(f"; next: {step}" for step in steps_out(after, repeated(state))))
    if after["state"] == State.RECOVERY:
        waits = ", ".join([*after["not_evaluated"], *after["tripped"]]) or "the time to settle"
        typer.echo(f"it still waits for {waits}")
