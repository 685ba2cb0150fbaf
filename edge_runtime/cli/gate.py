"""`edge-runtime gate`: what waits for a person and what to do with it, and why an event may or may not leave."""

import contextlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.policy import PolicyOption, check, explain, starter
from edge_runtime.cli.state_option import Json, State, existing_state

if TYPE_CHECKING:
    from edge_runtime.gate.opening import ConfiguredRedactor
    from edge_runtime.gate.redaction import Redactor
    from edge_runtime.gate.review import Reviewer
    from edge_runtime.protocol.decision import DecisionReceipt

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Review what is held, check a policy, explain a decision.",
)

Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Name of the item, from `gate list`.", show_default=False)
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides.", show_default=False)]
Why = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, in a few words.", show_default=False)
]


class Crop(str, Enum):
    """How much of the crop goes with a released item."""

    NONE = "none"
    REDACTED = "redacted"
    CROP = "crop"


class Class(str, Enum):
    """Classes that a person may state."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"


@app.command("list")
def list_held(
    state: State = None,
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show at most so many, oldest first.")] = 100,
) -> None:
    """List what waits for a person, without its content."""
    from edge_runtime.cli.report import short_time, write_json

    with _reviewer(state, None) as reviewer:
        items, total = reviewer.held(limit), reviewer.count()
    if as_json:
        write_json({"total": total, "items": [item.model_dump(mode="json", exclude={"v"}) for item in items]})
        return
    if not items:
        typer.echo("nothing is held")
        return
    for item in items:
        receipt = item.receipt
        reasons = ", ".join(reason.value for reason in receipt.reasons)
        typer.echo(
            f"{item.key}  {receipt.severity.value:8}  {receipt.data_class.value:12}  "
            f"{receipt.camera}/{receipt.rule}  {short_time(item.left_ms)}  {reasons}"
        )
    if total > len(items):
        typer.echo(f"and {total - len(items)} more; --limit shows them")


@app.command()
def show(key: Key, state: State = None, as_json: Json = False) -> None:
    """Show one held item with its content, its reasons, and where its crop lies."""
    from edge_runtime.cli.held_item import held_lines
    from edge_runtime.cli.report import write_json

    place = existing_state(state)
    with _reviewer(state, None) as reviewer:
        content = reviewer.show(key)
    crop = None if content.crop is None else str(place.evidence_file(content.crop.sha256))
    event = content.event.model_dump(mode="json", exclude_none=True)
    if as_json:
        receipt = content.receipt.model_dump(mode="json", exclude_none=True, exclude={"v"})
        write_json({"key": key, "left_ms": content.left_ms, "receipt": receipt, "event": event, "crop": crop})
        return
    for line in held_lines(key, content, crop):
        typer.echo(line)


@app.command()
def release(
    key: Key,
    by: By,
    reason: Why,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="NAME", help="Recipient; all that accept its class when not given."),
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="What they may use it for; their first purpose when not given.")
    ] = None,
    evidence: Annotated[Crop, typer.Option(help="How much of its crop goes with it.")] = Crop.NONE,
    stated_class: Annotated[
        Class | None, typer.Option("--class", help="What it is, where its class is unknown.")
    ] = None,
    state: State = None,
    policy: PolicyOption = None,
    as_json: Json = False,
) -> None:
    """Let a held item go to its recipients. Who did it and why is kept with the decision."""
    from edge_runtime.protocol import DataClass, EvidenceMode

    chosen: DataClass | None = None if stated_class is None else DataClass(stated_class.value)
    from edge_runtime.gate.review import redacts

    with _redactor(state) as redactor, _reviewer(state, policy, redactor) as reviewer:
        receipt = reviewer.release(
            key,
            by=by,
            note=reason,
            to=to or (),
            purpose=purpose,
            evidence=EvidenceMode(evidence.value),
            stated_class=chosen,
        )
    how = f"; {redactor.how}" if redacts(receipt) else ""
    _say_decision(receipt, f"released to {', '.join(receipt.recipients)}{how}", as_json=as_json)


@app.command()
def drop(
    key: Key, by: By, reason: Why, state: State = None, policy: PolicyOption = None, as_json: Json = False
) -> None:
    """Give a held item up. Who did it and why is kept with the decision."""
    with _reviewer(state, policy) as reviewer:
        receipt = reviewer.drop(key, by=by, note=reason)
    _say_decision(receipt, "dropped", as_json=as_json)


@app.command()
def receipts(
    state: State = None,
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Show at most so many, newest first.")] = 50,
) -> None:
    """List the newest decisions: what was decided, why, and by which policy. They hold no content."""
    from edge_runtime.cli.report import write_json
    from edge_runtime.clock import SystemClock
    from edge_runtime.outbox.access import reach
    from edge_runtime.protocol.decision import DecisionReceipt

    with reach(existing_state(state), SystemClock()) as outbox:
        found = [DecisionReceipt.decode(raw) for raw in outbox.decisions(limit)]
    if as_json:
        write_json(
            {"decisions": [item.model_dump(mode="json", exclude_none=True, exclude={"v"}) for item in found]}
        )
        return
    if not found:
        typer.echo("no decisions yet")
    for item in found:
        reasons = ", ".join(reason.value for reason in item.reasons)
        who = "" if item.by is None else f"  by {item.by}"
        typer.echo(f"{item.at.wall}  {item.decision.value:4}  {item.camera}/{item.rule}  {reasons}{who}")


for _command in (check, starter, explain):
    app.command()(_command)


def _say_decision(receipt: "DecisionReceipt", text: str, *, as_json: bool) -> None:
    from edge_runtime.cli.report import write_json

    if as_json:
        write_json(receipt.model_dump(mode="json", exclude_none=True, exclude={"v"}))
    else:
        typer.echo(f"{text}; decision {receipt.id}")


@contextlib.contextmanager
def _redactor(option: Path | None) -> "Iterator[ConfiguredRedactor]":
    """As the configuration of the last run on this state directory asks."""
    from edge_runtime.config import load_config
    from edge_runtime.errors import EdgeRuntimeError
    from edge_runtime.gate.opening import ConfiguredRedactor
    from edge_runtime.gate.places import configuration_place

    place = configuration_place(existing_state(option))
    try:
        loaded = None if place is None else load_config(place)
    except EdgeRuntimeError:
        loaded = None  # moved, or broken since: what hides most is done, and said
    with contextlib.closing(ConfiguredRedactor(loaded)) as redactor:
        yield redactor


@contextlib.contextmanager
def _reviewer(
    option: Path | None, policy: Path | None, redactor: "Redactor | None" = None
) -> "Iterator[Reviewer]":
    from edge_runtime.clock import SystemClock
    from edge_runtime.gate.explain import policy_for
    from edge_runtime.gate.places import policy_place
    from edge_runtime.gate.review import Reviewer
    from edge_runtime.outbox.access import reach

    state, clock = existing_state(option), SystemClock()
    in_force = policy_for(policy or policy_place(state))
    with reach(state, clock) as outbox:
        yield Reviewer(outbox, lambda: in_force.policy, state, clock, redactor)
