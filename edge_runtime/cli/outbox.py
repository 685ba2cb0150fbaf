"""`edge-runtime outbox`: how the queue stands, what is in it, and what was put aside."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from edge_runtime.cli.state_option import Json, State, existing_state

if TYPE_CHECKING:
    from edge_runtime.outbox import Outbox, OutboxClient, OutboxStatus, QueuedEntry

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Look at the queue of events that wait for the fleet server.",
)

Limit = Annotated[int, typer.Option(min=1, max=1000, help="Show at most so many, oldest first.")]

_SEVERITIES = ("info", "notice", "warning", "critical")
_FATES = ("queued", "delivered", "expired", "evicted", "rejected", "lost")


@app.command()
def status(state: State = None, as_json: Json = False) -> None:
    """Say how the queue stands: what was accepted, what became of it, and whether the disk keeps its promise.

    Accepted is always the sum of queued, delivered, expired, evicted, rejected and lost. Events that were never
    accepted, and those that wait for a person, are counted beside it.
    """
    from edge_runtime.cli.report import write_json
    from edge_runtime.clock import SystemClock
    from edge_runtime.outbox.access import reach

    with reach(existing_state(state), SystemClock()) as outbox:
        found = outbox.status()
    if as_json:
        write_json(status_record(found))
        return
    for line in status_lines(found):
        typer.echo(line)


@app.command("list")
def list_queue(state: State = None, as_json: Json = False, limit: Limit = 20) -> None:
    """List queued events without their content."""
    from edge_runtime.cli.report import short_time, write_json
    from edge_runtime.clock import SystemClock
    from edge_runtime.outbox.access import reach

    with reach(existing_state(state), SystemClock()) as outbox:
        entries, total = outbox.queued(limit), outbox.status().ledger.queued
    if as_json:
        write_json({"queued": total, "items": [entry_record(entry) for entry in entries]})
        return
    if not entries:
        typer.echo("nothing is queued")
        return
    typer.echo(f"{'SEQ':>10}  {'SEVERITY':8}  {'LEFT':>8}  {'BYTES':>6}  {'TRIES':>5}  KEY")
    for entry in entries:
        severity, left = _SEVERITIES[entry.severity], short_time(entry.left_ms)
        typer.echo(
            f"{entry.seq:>10}  {severity:8}  {left:>8}  {entry.bytes:>6}  {entry.tries:>5}  {entry.key.hex()}"
        )
    if total > len(entries):
        typer.echo(f"… and {total - len(entries)} more")


@app.command()
def export(
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to write; - is stdout.")] = "-",
    state: State = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="What the server refused for good, instead of the queue.")
    ] = False,
) -> None:
    """Write queued events as NDJSON, one object a line, with their content. They stay queued.

    Each line has seq, and event and decision as approved; a body that cannot be read is given as hex.
    """
    from edge_runtime.clock import SystemClock
    from edge_runtime.errors import EdgeRuntimeError
    from edge_runtime.outbox.access import reach

    with reach(existing_state(state), SystemClock()) as outbox:
        lines = _dead_lines(outbox) if dead_letters else _queue_lines(outbox)
        if out == "-":
            number = _write_lines(sys.stdout, lines)
        else:
            try:
                with open(out, "x", encoding="utf-8", opener=_private) as file:
                    number = _write_lines(file, lines)
            except OSError as error:
                raise EdgeRuntimeError(f"{out}: {error.strerror}") from None
    sys.stderr.write(f"{number} events written\n")


@app.command()
def quarantine(
    state: State = None,
    as_json: Json = False,
    delete: Annotated[
        str | None, typer.Option(metavar="NAME", help="Delete this file, its log included.")
    ] = None,
) -> None:
    """List damaged databases that were put aside, or delete one.

    What could be read of them was salvaged when they were put aside; what could not is counted as lost.
    """
    from edge_runtime.cli.report import write_json
    from edge_runtime.errors import EdgeRuntimeError
    from edge_runtime.outbox.storefile import delete_quarantined, quarantined, quarantined_bytes

    folder = existing_state(state).outbox
    if delete is not None:
        if delete not in quarantined(folder):
            raise EdgeRuntimeError(f"{delete} is not in the quarantine of {folder}")
        delete_quarantined(folder, delete)
        typer.echo(f"{delete} deleted")
        return
    files = [{"name": name, "bytes": quarantined_bytes(folder, name)} for name in quarantined(folder)]
    if as_json:
        write_json({"directory": str(folder / "quarantine"), "files": files})
        return
    if not files:
        typer.echo("the quarantine is empty")
    for file in files:
        typer.echo(f"{file['name']}  {file['bytes']:>12} bytes")


def status_record(found: "OutboxStatus") -> dict[str, Any]:
    """The status for programs: the ledger's counts on top, as docs/outbox.md lists them."""
    ledger = found.ledger.model_dump(exclude={"v"})
    return {
        **ledger,
        "balances": found.ledger.balances,
        "not_accepted": found.not_accepted,
        "held": found.held,
        "held_bytes": found.held_bytes,
        "gate": found.gate,
        "evidence": found.evidence,
        "bytes": found.bytes,
        "quota_bytes": found.quota_bytes,
        "disk_bytes": found.disk_bytes,
        "queued_by_severity": dict(zip(_SEVERITIES, found.queued_by_severity, strict=True)),
        "leased": found.leased,
        "dead_letters": found.dead_letters,
        "oldest_age_ms": found.oldest_age_ms,
        "state": found.state.value,
        "sentences": list(found.sentences),
        "quarantined": list(found.quarantined),
        "epoch": found.epoch,
    }


def status_lines(found: "OutboxStatus") -> Iterator[str]:
    """The status for people, within 80 columns."""
    import textwrap

    ledger = found.ledger
    yield f"outbox {found.state.value}"
    for sentence in found.sentences:
        yield from textwrap.wrap(f"! {sentence}", 80, subsequent_indent="  ")
    yield f"accepted   {ledger.accepted:>12,}   since the outbox was first made"
    for name in _FATES:
        yield from _wrapped(f"  {name:9}{getattr(ledger, name):>12,}", _beside(found, name))
    if not ledger.balances:
        yield "! these do not add up, which is a defect"
    refused = sum(found.not_accepted.values())
    why = ", ".join(f"{name} {number:,}" for name, number in sorted(found.not_accepted.items()))
    yield from _wrapped(f"not accepted {refused:>10,}", why)
    yield from _wrapped(
        f"held       {found.held:>12,}",
        ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in found.gate.items() if number),
    )
    crops = found.evidence["waiting"] + found.evidence["due"]
    ends = ("due", "uploaded", "expired", "evicted", "failed", "dropped")
    beside = ", ".join(f"{name} {found.evidence[name]:,}" for name in ends if found.evidence[name])
    yield from _wrapped(f"crops      {crops:>12,}", beside)
    yield (
        f"room       {found.bytes / 2**20:>8.1f} MiB   of {found.quota_bytes / 2**20:.1f} MiB; "
        f"{found.disk_bytes / 2**20:.1f} MiB on the disk"
    )
    if found.quarantined:
        yield f"put aside  {len(found.quarantined):>12}   damaged files: `outbox quarantine`"


def _beside(found: "OutboxStatus", name: str) -> str:
    from edge_runtime.cli.report import short_time

    if name == "queued" and found.ledger.queued:
        parts = zip(_SEVERITIES, found.queued_by_severity, strict=True)
        text = ", ".join(f"{number:,} {severity}" for severity, number in parts if number)
        return f"{text}; oldest {short_time(found.oldest_age_ms or 0)}"
    if name == "rejected" and found.dead_letters:
        return f"{found.dead_letters:,} kept: `outbox export --dead-letters`"
    return ""


def _wrapped(head: str, beside: str) -> Iterator[str]:
    import textwrap

    lines = textwrap.wrap(beside, 80 - 26) or [""]
    yield f"{head}   {lines[0]}".rstrip()
    for line in lines[1:]:
        yield " " * 26 + line


def entry_record(entry: "QueuedEntry") -> dict[str, Any]:
    """One queued event for programs, without its content."""
    return {
        "seq": entry.seq,
        "key": entry.key.hex(),
        "severity": _SEVERITIES[entry.severity],
        "left_ms": entry.left_ms,
        "bytes": entry.bytes,
        "tries": entry.tries,
    }


def _queue_lines(outbox: "Outbox | OutboxClient") -> Iterator[dict[str, Any]]:
    after = 0
    while page := outbox.bodies(64, after):
        for seq, body in page:
            yield {"seq": seq, **_content(body)}
        after = page[-1][0]


def _dead_lines(outbox: "Outbox | OutboxClient") -> Iterator[dict[str, Any]]:
    for letter in outbox.dead_letters(200):
        yield {
            "seq": letter.seq,
            "key": letter.key.hex(),
            "code": letter.code,
            "text": letter.text,
            **_content(letter.body),
        }


def _content(body: bytes) -> dict[str, Any]:
    from edge_runtime.protocol.delivery import ApprovedEvent
    from edge_runtime.protocol.wire import WireError

    try:
        approved = ApprovedEvent.decode(body)
    except WireError:
        return {"unreadable": body.hex()}
    return approved.model_dump(mode="json", exclude={"v"}, exclude_none=True)


def _write_lines(file: TextIO, lines: Iterator[dict[str, Any]]) -> int:
    import json

    number = 0
    for line in lines:
        file.write(json.dumps(line) + "\n")
        number += 1
    return number


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)
