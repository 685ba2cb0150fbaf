"""`edge-runtime replay`: a recording once more, through one component or all that was recorded."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from edge_runtime.recording import ConfigFacts, Part
    from edge_runtime.replay.diff import Difference
    from edge_runtime.replay.perception import Perception
    from edge_runtime.replay.player import Component, LookerOf, Replayed

DIFFERS = 3
MOST_LINES = 50


def replay(
    recording: Annotated[
        Path, typer.Argument(help="Folder of a recording, of a test made of one, or of a flight recorder.")
    ],
    part: Annotated[
        str | None,
        typer.Option(
            "--part",
            metavar="rules|perception|health|guard|device",
            help="What the inputs go through; all that was recorded, but frames, without it.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Configuration, in place of the recording's own."),
    ] = None,
    events: Annotated[
        str | None, typer.Option("--events", metavar="FILE", help="Write the events here; - is stdout.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="FILE", help="Events to compare with, in place of the recording's own."
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also with another configuration or model than was recorded.")
    ] = False,
    from_s: Annotated[
        float,
        typer.Option(
            "--from", min=0, max=31_536_000, metavar="SECONDS", help="Begin so long after its beginning."
        ),
    ] = 0.0,
    until_s: Annotated[
        float | None,
        typer.Option(
            "--until", min=0, max=31_536_000, metavar="SECONDS", help="End so long after its beginning."
        ),
    ] = None,
    as_test: Annotated[
        Path | None,
        typer.Option("--as-test", metavar="DIR", help="Make a folder of it that a test can replay."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What that test shows, for its reader.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> int:
    """Replay a recording, as fast as it can be, and compare its events with a reference.

    The reference is the file of --against; without it what a test's folder expects, to the byte; without that the
    events that the device made when it was recorded. The same recording and configuration give the same bytes.

    With --config and --anyway it shows what another configuration would have made of what happened.
    """
    from edge_runtime.errors import ConfigError
    from edge_runtime.replay.case import checked, component_of, expected_events, write_case
    from edge_runtime.replay.player import Wish
    from edge_runtime.replay.player import replay as play
    from edge_runtime.replay.reference import read_events, write_events

    if until_s is not None and until_s <= from_s:
        raise ConfigError("--until must be greater than --from")
    if events == "-" and as_json:
        raise ConfigError("--events - and --json both write to standard output: choose one")
    case = component_of(recording)
    component = _component(part, case)
    reference = None if against is None else read_events(against)
    with contextlib.ExitStack() as stack:
        facts, looker = _configured(config, component, stack, anyway=anyway)
        wish = Wish(component, facts, anyway, from_s, until_s, looker)
        result = play(_parts(recording, config), wish)
    if events is not None:
        write_events(events, result.events)
    exact = against is None and case is component and facts is None and not from_s and until_s is None
    if exact:
        expected = expected_events(recording, component)
        found = checked(result, expected)
        differences, same = list(found.differences), found.same
    else:
        expected = result.recorded if reference is None else reference
        differences = result.differences(reference)
        same = not differences
    if as_test is not None:
        write_case(as_test, result, wish, note or f"Made of {recording.name}.")
    _tell(result, differences, len(expected), same=same, as_json=as_json, quiet=events == "-")
    return 0 if same else DIFFERS


def _parts(recording: Path, config: Path | None) -> "list[Part]":
    """The parts of a recording, or the lives of the guards in a flight recorder."""
    from edge_runtime.config import load_config
    from edge_runtime.errors import ConfigError
    from edge_runtime.recording import open_recording
    from edge_runtime.replay.flight import is_flight, open_flight

    if not is_flight(recording):
        return open_recording(recording)
    if config is None:
        raise ConfigError(
            "a flight recorder does not hold the configuration: name the device's with --config"
        )
    return open_flight(recording, load_config(config))


def _component(part: str | None, case: "Component | None") -> "Component":
    from edge_runtime.errors import ConfigError
    from edge_runtime.replay.player import Component

    if part is None:
        return case or Component.DEVICE
    names = [one.value for one in Component]
    if part not in names:
        raise ConfigError(f"--part takes one of {', '.join(names)}, not {part}")
    return Component(part)


def _configured(
    config: Path | None, component: "Component", stack: contextlib.ExitStack, *, anyway: bool
) -> "tuple[ConfigFacts | None, LookerOf | None]":
    """What of a configuration replays need, and what looks at frames with its models."""
    if config is None:
        return None, None
    from edge_runtime.config import load_config
    from edge_runtime.recording.configuration import facts_of
    from edge_runtime.replay.player import Component

    loaded = load_config(config)
    if component is not Component.PERCEPTION:
        return facts_of(loaded), None
    from edge_runtime.node.models import load_models
    from edge_runtime.replay.perception import Perception, require_models

    models = load_models(loaded)
    for ready in models.values():
        stack.callback(ready.close)

    def looker(part: "Part") -> "Perception":
        require_models(part.head.cameras, models, anyway=anyway)
        return Perception(part.folder, part.head.cameras, models)

    return facts_of(loaded), looker


def _tell(
    result: "Replayed",
    differences: "Sequence[Difference]",
    expected: int,
    *,
    same: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """What came of it: on stdout, or on stderr where the events are on stdout; what is missing, on stderr."""
    from edge_runtime.cli.report import say, write_json
    from edge_runtime.replay.words import agreement_line, difference_lines, standing_line, trouble_lines

    for part, standing in result.standings:
        for line in trouble_lines(part, standing):
            say(line)
    if result.refused:
        say(f"{result.refused} records are not what they should be, and were passed over")
    if as_json:
        write_json(_json(result, differences, expected, same=same), indent=2)
        return
    write = say if quiet else typer.echo
    for part, standing in result.standings:
        write(standing_line(part, standing))
    if result.agreement is not None:
        write(agreement_line(result.agreement))
    for line in difference_lines(differences, result.base_ns, MOST_LINES):
        write(line)
    events = len(result.events)
    if same:
        write(
            f"{events} events, as expected"
            if expected or not events
            else f"{events} events, nothing to compare with"
        )
    else:
        number = len(differences)
        told = f"{number} difference{'s' if number != 1 else ''}" if number else "their order differs"
        write(f"{events} events, {expected} expected: {told}")


def _json(
    result: "Replayed", differences: "Sequence[Difference]", expected: int, *, same: bool
) -> dict[str, Any]:
    return {
        "same": same,
        "events": len(result.events),
        "expected": expected,
        "frames": result.frames,
        "parts": [
            {
                "name": part.folder.name,
                "records": standing.records,
                "seconds": round(standing.seconds, 3),
                "ended": standing.why,
                "begins": standing.begins,
                "missing": standing.missing,
                "damaged": standing.damaged,
                "lost": dict(standing.lost),
            }
            for part, standing in result.standings
        ],
        "differences": [
            {
                "kind": one.kind.value,
                "camera": one.event.camera,
                "rule": one.event.rule,
                "event": one.event.kind,
                "state": one.event.state.value,
                "at_s": round((one.event.at.monotonic_ns - result.base_ns) / 1e9, 3),
                "shift_s": round(one.shift_s, 3),
                "fields": [list(change) for change in one.fields],
            }
            for one in differences
        ],
    }
