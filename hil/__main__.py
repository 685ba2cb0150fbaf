"""`python -m hil`: look at rigs and at reports. `pytest hil` is what runs the plan.

Exit codes: 0 done; 1 it failed, or a driver does not bind; 2 a file or the command line cannot be used; 3 every
driver binds, and this machine lacks programs for some.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.errors import EdgeRuntimeError
from hil.bench.binding import bind
from hil.problems import BadReport
from hil.report.compare import compared, comparison, matrix, trends
from hil.report.signing import KEY_FILE, own_signer, public_hex, public_key, read_report, report_files
from hil.rig_file import RIGS, RigFile, read_rig, rig_path
from hil.rotation import STATE, heal, sickness

LACKS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.act(chosen))
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hil", description="Rigs and their reports.")
    parser.add_argument("--state", type=Path, default=STATE, metavar="DIR", help="which rigs are sick; keys")
    acts = parser.add_subparsers(required=True, metavar="rigs|check|heal|key|verify|report")
    rigs = acts.add_parser("rigs", help="rigs that come with the project, and whether they are in rotation")
    rigs.set_defaults(act=_rigs)
    check = acts.add_parser("check", help="read a rig's file and bind its drivers, without hardware")
    check.add_argument("rig", metavar="RIG", help="a rig's name, or its file")
    check.set_defaults(act=_check)
    healing = acts.add_parser("heal", help="put a rig back into rotation, once it is well")
    healing.add_argument("rig", metavar="RIG", help="a rig's name, or its file")
    healing.set_defaults(act=_heal)
    key = acts.add_parser("key", help="the public half of the key that signs reports here; made at first")
    key.set_defaults(act=_key)
    verify = acts.add_parser("verify", help="say whether a report is signed by a key and was not changed")
    verify.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    verify.add_argument(
        "--key", action="append", default=[], metavar="HEX", help="public key; without it, the own one"
    )
    verify.set_defaults(act=_verify)
    report = acts.add_parser("report", help="compare two runs; the matrix of all, with trends")
    report.add_argument("places", nargs="+", type=Path, metavar="REPORT|DIR")
    report.set_defaults(act=_report)
    return parser


def _rigs(chosen: argparse.Namespace) -> int:
    for path in sorted(RIGS.glob("*.toml")):
        file = read_rig(path)
        sick = sickness(chosen.state, file.name)
        standing = "in rotation" if sick is None else f"out of rotation: {sick.reason}"
        sys.stdout.write(f"{file.name:<12} {file.kind:<6} {standing:<14} {file.about}\n")
    return 0


def _check(chosen: argparse.Namespace) -> int:
    file = read_rig(rig_path(chosen.rig))
    if file.kind != "bench":
        sys.stdout.write(f"{file.name}: rig {file.kind} needs no drivers\n{_absences(file)}")
        return 0
    _, found = bind(file, lambda: 0.0)
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        word = "no" if one.problem else "bound"
        sys.stdout.write(f"{one.name:<{width}}  {word:<5}  {one.problem or one.told}\n")
        for text in one.lacks:
            sys.stdout.write(f"{'':<{width}}  lacks  {text}\n")
    sys.stdout.write(_absences(file))
    if any(one.problem for one in found):
        return 1
    return LACKS if any(one.lacks for one in found) else 0


def _absences(file: RigFile) -> str:
    return "".join(f"absent: {name}: {reason}\n" for name, reason in file.absent.items())


def _heal(chosen: argparse.Namespace) -> int:
    name = read_rig(rig_path(chosen.rig)).name
    found = heal(chosen.state, name)
    was = (
        "was in rotation"
        if found is None
        else f"is in rotation again; since {found.since} it had: {found.reason}"
    )
    sys.stdout.write(f"rig {name} {was}\n")
    return 0


def _key(chosen: argparse.Namespace) -> int:
    sys.stdout.write(f"{public_hex(own_signer(chosen.state / KEY_FILE))}\n")
    return 0


def _verify(chosen: argparse.Namespace) -> int:
    own = chosen.state / KEY_FILE
    if not chosen.key and not own.exists():
        raise BadReport(f"there is no key of this checkout at {own}: name one with --key")
    given = chosen.key or [public_hex(own_signer(own))]
    keys = [public_key(text) for text in given]
    for path in chosen.reports:
        report = read_report(path, keys)
        word = "passed" if report.passed else "failed"
        measured = len(report.measurements)
        sys.stdout.write(f"{path}: signed; {report.rig} {report.started}: {word}, {measured} measurements\n")
    return 0


def _report(chosen: argparse.Namespace) -> int:
    files = [file for place in chosen.places for file in report_files(place)]
    reports = [read_report(file) for file in dict.fromkeys(files)]
    pair = compared(reports)
    lines = [] if pair is None else [*comparison(*pair), ""]
    lines += [*matrix(reports), "", *trends(reports)]
    sys.stdout.write("\n".join(lines).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
