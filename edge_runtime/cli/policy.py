"""Commands of `edge-runtime gate` that need no outbox: check a policy, print one, and explain a decision by it."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from edge_runtime.cli.state_option import Json, State

PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="FILE", help="Policy file; the running gate's, else policy.yaml in the state."
    ),
]


class Starter(str, Enum):
    """Policies to begin with."""

    OFFLINE_FIRST = "offline_first"
    SITE_STANDARD = "site_standard"


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy file.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Say whether FILE is a valid policy; if not, every reason with its line."""
    from edge_runtime.cli.report import problem_records, say, write_json
    from edge_runtime.config import InvalidConfig
    from edge_runtime.gate.policy_file import read_policy

    try:
        policy = read_policy(file)
    except InvalidConfig as error:
        if as_json:
            write_json({"valid": False, "problems": problem_records(error.problems), "digest": None})
        else:
            for line in error.lines():
                say(line)
        return error.exit_code
    if as_json:
        write_json({"valid": True, "problems": [], "digest": policy.digest})
        return 0
    counts = f"recipients: {len(policy.recipients)}, permits: {len(policy.permits)}"
    typer.echo(f"{file}: valid; {counts}; {policy.digest}")
    return 0


def starter(
    name: Annotated[Starter, typer.Argument(help="Which one.")] = Starter.OFFLINE_FIRST,
) -> None:
    """Print a policy to begin with; send it to a file, and change it there.

    offline_first lets nothing go and holds what a person should see; site_standard sends warnings and alarms with a
    redacted crop to the fleet server.
    """
    from importlib.resources import files

    text = (files("edge_runtime.gate") / "starters" / f"{name.value}.yaml").read_text(encoding="utf-8")
    typer.echo(text, nl=False)


def explain(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="EVENT.json", help="One line of an event log, or - for stdin.", show_default=False
        ),
    ],
    policy: PolicyOption = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Say what the gate would do with one event, and why. No budget counts as spent.

    An event without a class is one of unknown class. Where the policy file cannot be used, the answer is what the
    gate does then: it holds; the reasons are on stderr.
    """
    from edge_runtime.cli.report import say, write_json
    from edge_runtime.gate.explain import MAX_EVENT_FILE_BYTES, parse_event, policy_for, read_event
    from edge_runtime.gate.explain import explain as explain_event
    from edge_runtime.gate.places import policy_place
    from edge_runtime.policy import sentence
    from edge_runtime.state import StateDirectory

    if str(file) == "-":
        event = parse_event(sys.stdin.buffer.read(MAX_EVENT_FILE_BYTES), "stdin")
    else:
        event = read_event(file)
    place = policy or policy_place(StateDirectory.find(state))
    explanation = explain_event(event, policy_for(place))
    for line in explanation.in_force.trouble:
        say(line)
    if as_json:
        write_json(explanation.as_json())
        return
    decision = explanation.decision
    typer.echo(f"{decision.kind.value}: {'; '.join(sentence(reason) for reason in decision.reasons)}")
    if decision.recipients:
        typer.echo(
            f"to {', '.join(decision.recipients)} for {decision.purpose}, crop: {decision.evidence.value}"
        )
    for item in decision.considered:
        typer.echo(f"permit {item.permit}: {', '.join(reason.value for reason in item.reasons)}")
    typer.echo(f"policy {decision.policy or f'none at {place}'}")
