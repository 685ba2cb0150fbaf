"""`edge-runtime fault`: make parts of a device on a bench fail, on purpose, and take it back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.state_option import Json, State

if TYPE_CHECKING:
    from edge_runtime.clock import Clock
    from edge_runtime.config import LoadedConfig
    from edge_runtime.faults import Injection
    from edge_runtime.state import StateDirectory

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Make parts of a device on a bench fail, on purpose.",
)

Config = Annotated[Path, typer.Argument(help="Configuration file of the device.")]


@app.command()
def units(as_json: Json = False) -> None:
    """List what can be made to fail, how, and with which amounts; whatever is not listed is refused."""
    from edge_runtime.cli.report import write_json
    from edge_runtime.faults import EFFECTS

    if as_json:
        rows = [
            {
                "unit": unit.value,
                "fault": kind.value,
                "does": effect.text,
                "amount": effect.amount,
                "low": effect.low if effect.amount is not None else None,
                "high": effect.high if effect.amount is not None else None,
                "measure": effect.measure or None,
            }
            for (unit, kind), effect in EFFECTS.items()
        ]
        write_json({"faults": rows})
        return
    for (unit, kind), effect in EFFECTS.items():
        amount = (
            f"  [{effect.low:g} to {effect.high:g} {effect.measure}]" if effect.amount is not None else ""
        )
        typer.echo(f"{unit.value:<12} {kind.value:<13} {effect.told(effect.amount)}{amount}")


@app.command()
def inject(
    config: Config,
    unit: Annotated[str, typer.Argument(help="What is to fail.")],
    fault: Annotated[
        str, typer.Argument(help="How: off, stuck, garbage, wrong, slow, delayed, intermittent.")
    ],
    seconds: Annotated[float, typer.Option("--for", metavar="SECONDS", help="How long.")] = 10.0,
    name: Annotated[
        str,
        typer.Option(
            "--name", help="Of the camera or battery; every one without it. Of other units there is none."
        ),
    ] = "",
    amount: Annotated[
        float | None, typer.Option("--amount", help="How much; `edge-runtime fault units` says of what.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Who asks for it; told in the event.")] = "",
    state: State = None,
) -> None:
    """Order one fault. It ends by itself, and each one is an event as it begins and as it ends."""
    import secrets

    from edge_runtime.clock import SystemClock
    from edge_runtime.faults import injection, orders_file, refuse_absent, write_orders
    from edge_runtime.node.workers import ask_guard

    clock = SystemClock()
    loaded, place = _permitted(config, state)
    order = injection(
        unit,
        fault,
        id=secrets.token_hex(4),
        begins_ns=clock.monotonic_ns(),
        for_s=seconds,
        boot_id=clock.wall().boot_id,
        name=name,
        amount=amount,
        by=by,
    )
    known, monitored = loaded.config, loaded.config.is_device
    refuse_absent(order, known.cameras, known.guarding.monitor.batteries, monitored=monitored)
    write_orders(orders_file(place.ensure()), [*_standing(place, clock), order])
    runs = ask_guard(place) is not None
    begins = "begins within a second" if runs else "no guard runs here: what is left then begins once it runs"
    typer.echo(f"{order.id}  {order.text}, for {seconds:g} s; {begins}")


@app.command("list")
def listed(config: Config, state: State = None, as_json: Json = False) -> None:
    """List the faults that are ordered and not over."""
    from edge_runtime.cli.report import write_json
    from edge_runtime.clock import NS_PER_S, SystemClock

    clock = SystemClock()
    standing = _standing(_permitted(config, state)[1], clock)
    if as_json:
        write_json({"faults": [order.to_json() for order in standing]})
        return
    for order in standing:
        left = (order.ends_ns - clock.monotonic_ns()) / NS_PER_S
        by = f", by {order.by}" if order.by else ""
        typer.echo(f"{order.id}  {order.text}; ends in {max(left, 0.0):.0f} s{by}")


@app.command()
def clear(config: Config, state: State = None) -> None:
    """Take every fault back at once."""
    from edge_runtime.faults import orders_file, write_orders

    write_orders(orders_file(_permitted(config, state)[1].ensure()), [])


def _permitted(config: Path, option: Path | None) -> "tuple[LoadedConfig, StateDirectory]":
    """Configuration and state directory of a device whose own configuration permits faults.

    Raises:
        FaultRefused: it does not.
    """
    from edge_runtime.config import load_config
    from edge_runtime.faults import FaultRefused
    from edge_runtime.node.places import state_of

    loaded = load_config(config)
    if not loaded.config.injects_faults:
        raise FaultRefused(
            f"{config}: faults are not permitted here; a device on a bench permits them with "
            "device: {purpose: bench} and faults: {enabled: true}"
        )
    return loaded, state_of(loaded, option)


def _standing(place: "StateDirectory", clock: "Clock") -> "list[Injection]":
    from edge_runtime.faults import orders_file, read_orders

    now_ns, boot_id = clock.monotonic_ns(), clock.wall().boot_id
    found = read_orders(orders_file(place))
    return [order for order in found if order.boot_id == boot_id and order.ends_ns > now_ns]
