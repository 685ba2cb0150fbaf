"""`python -m sim`: list scenarios, run them, and report what was expected and measured.

Exit codes: 0 every expectation was met; 1 one was not, or a run broke off; 2 a file or the command line cannot be
used.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from sim.report.run import Run
from sim.report.write import PAGE, write_reports
from sim.rigs import NETWORKS, RIGS, check, run
from sim.scenario.document import read_scenario, scenario_files
from sim.scenario.faults import WORLD
from sim.scenario.measures import MEASURES
from sim.scenario.protections import WITHOUT
from sim.scenario.records import Protection, Scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.act(chosen))
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sim", description="Scenarios: run them and measure.")
    acts = parser.add_subparsers(required=True, metavar="list|run|words")
    listed = acts.add_parser("list", help="the scenarios that come with the project")
    listed.set_defaults(act=_list)
    words = acts.add_parser("words", help="faults, measures and protections that a scenario may name")
    words.set_defaults(act=_words)
    running = acts.add_parser("run", help="run scenarios")
    running.add_argument("files", nargs="+", type=Path, metavar="FILE", help="scenarios; `all` is every one")
    running.add_argument("--rig", choices=sorted(RIGS), default="sim", help="sim, the default, or local")
    running.add_argument(
        "--network", choices=NETWORKS, default=NETWORKS[0], help="of rig local; a namespace needs root"
    )
    running.add_argument("--fault", metavar="NAME", help="only this one of the scenario's faults happens")
    running.add_argument(
        "--without",
        action="append",
        default=[],
        choices=get_args(Protection),
        metavar="PROTECTION",
        help="take a protection away; the scenario has to fail then",
    )
    running.add_argument(
        "--report", type=Path, metavar="DIR", help="write junit.xml, report.json, report.html"
    )
    running.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and state of rig local here")
    running.set_defaults(act=_run)
    return parser


def _list(_: argparse.Namespace) -> int:
    for path in scenario_files():
        scenario = read_scenario(path)
        rigs = ",".join(scenario.rigs)
        sys.stdout.write(f"{scenario.name:<24} {rigs:<10} {scenario.duration:>8g} s  {scenario.title}\n")
        for rig, missed in scenario.protections.items():
            sys.stdout.write(f"    fails on {rig} without {', '.join(missed)}\n")
        for rig, why in scenario.no_mutant_on.items():
            sys.stdout.write(f"    nothing is taken away on {rig}: {why}\n")
        for rig, why in scenario.not_on.items():
            sys.stdout.write(f"    not on {rig}: {why}\n")
    return 0


def _words(_: argparse.Namespace) -> int:
    from edge_runtime.faults import EFFECTS  # noqa: PLC0415 - for this listing alone

    for (unit, kind), effect in EFFECTS.items():
        sys.stdout.write(f"fault    {unit.value} {kind.value}: {effect.told(effect.amount)} (sim, local)\n")
    for (unit_name, kind_name), fault in WORLD.items():
        text = fault.text.format(amount=fault.amount)
        sys.stdout.write(f"fault    {unit_name} {kind_name}: {text} ({', '.join(fault.rigs)})\n")
    for name, measure in MEASURES.items():
        sys.stdout.write(f"measure  {name} [{measure.unit}]: {measure.text} ({', '.join(measure.rigs)})\n")
    for protection, ways in WITHOUT.items():
        for rig, how in ways.items():
            sys.stdout.write(f"without  {protection} on {rig}: {how}\n")
    return 0


def _run(chosen: argparse.Namespace) -> int:
    paths = scenario_files() if chosen.files == [Path("all")] else chosen.files
    scenarios = [read_scenario(path) for path in paths]
    if chosen.files == [Path("all")]:
        scenarios = [one for one in scenarios if chosen.rig in one.rigs]
    chosen_ones = [_only(scenario, chosen.fault) for scenario in scenarios]
    for scenario in chosen_ones:
        check(scenario, chosen.rig, chosen.without, chosen.network)
    for place in (chosen.report, chosen.keep):
        if place is not None:
            _writable(place)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="scenarios-") as scratch:
        for scenario in chosen_ones:
            folder = (chosen.keep or Path(scratch)) / scenario.name
            runs.append(run(scenario, chosen.rig, chosen.without, folder, chosen.network))
            _say(runs[-1])
    if chosen.report is not None:
        write_reports(chosen.report, runs)
        sys.stdout.write(f"{chosen.report / PAGE}\n")
    return 0 if all(one.passed for one in runs) else 1


def _writable(folder: Path) -> None:
    """Make a folder and see that it takes files, before hours are spent on what would go there.

    Raises:
        ConfigError: it cannot be made, or takes none.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to: {error.strerror}") from None


def _only(scenario: Scenario, name: str | None) -> Scenario:
    """The scenario with one of its faults, and the expectations about it and about none."""
    if name is None:
        return scenario
    faults = tuple(fault for fault in scenario.fault if fault.name == name)
    if not faults:
        known = ", ".join(fault.name for fault in scenario.fault)
        raise ConfigError(f"{scenario.name} has no fault {name}; it has {known}")
    expected = tuple(one for one in scenario.expect if one.after in (None, name))
    if not expected:
        raise ConfigError(f"{scenario.name} expects nothing of {name} alone")
    return scenario.model_copy(update={"fault": faults, "expect": expected})


def _say(done: Run) -> None:
    verdict = "passed" if done.passed else "FAILED"
    without = "".join(f" without {name}" for name in done.without)
    sys.stdout.write(f"{verdict}  {done.scenario.name} on {done.rig}{without}  {done.wall_s:.1f} s\n")
    for finding in done.findings:
        sys.stdout.write(f"    {'ok ' if finding.met else 'NOT'}  {finding.text}\n")
    if done.broke:
        sys.stdout.write(f"    broke off: {done.broke}\n")


if __name__ == "__main__":
    sys.exit(main())
