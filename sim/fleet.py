"""`python -m sim.fleet`: a virtual fleet at a real server through partitions and kills; do both sides agree?

    python -m sim.fleet --devices 2000 --minutes 10

Exit codes: 0 both sides agree and every process kept its budget; 1 not; 2 the command line cannot be used.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.init import initialise
from sim.fleet_trial import FleetTrial, Options, Outcome
from sim.ports import free_port
from sim.road import Server, running
from sim.soak import Line, SoakRun, over
from sim.soak.subjects import of_server
from sim.virtual.members import enrol_many

ARRIVE_A_SECOND = 25.0
"""A broker that syncs its store makes some tens of new sessions a second."""

_MOST_DEVICES = 20_000
THE_FLEET = "virtual devices"
"""This process itself: no part of the product, measured so that nobody takes its share for the server's."""


@dataclass(frozen=True, slots=True)
class Result:
    """A trial and what it took."""

    outcome: Outcome
    lines: list[Line]

    @property
    def problems(self) -> list[str]:
        """What is not as it should be, a sentence each."""
        wrong = [] if self.outcome.accounts.agrees else [f"the two sides differ: {self.outcome.accounts}"]
        return wrong + over(self.lines)


def soak(folder: Path, out: Path, devices: int, minutes: float, every_s: float) -> Result:
    """Make a server and a fleet, and run a trial of them.

    Args:
        folder: for the server's data and logs; empty.
        out: for the report.
        devices: how many.
        minutes: for which they deliver.
        every_s: seconds between two events of a device, on average.

    Raises:
        FleetError: it did not come to its end.
        RoadError: the server did not start, or did not come back.
    """
    initialise(folder / "fleet", listen=f"127.0.0.1:{free_port()}", broker_port=free_port())
    members = enrol_many(folder / "fleet", [f"v-{number}" for number in range(devices)])
    options = Options(seconds=minutes * 60, every_s=every_s, arrive_s=devices / ARRIVE_A_SECOND)
    run = SoakRun("fleet", out)
    with running(Server(folder)) as server:
        trial = FleetTrial(server, members, folder / "devices", options)

        def processes() -> dict[str, int]:
            return {**of_server(server), THE_FLEET: os.getpid()}

        with trial.online(), run.watching(processes, {"fleet serve": server.process.log}):
            outcome = trial.run()
    lines = run.finish(devices=devices, minutes=minutes, **outcome.facts())
    return Result(outcome, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sim.fleet", description="A virtual fleet, and its accounts."
    )
    parser.add_argument("--devices", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two events of a device")
    parser.add_argument("--out", type=Path, default=Path("out/soak"), metavar="DIR", help="for the report")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the server's data and logs here; empty"
    )
    chosen = parser.parse_args(arguments)
    try:
        _check(chosen)
        with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
            place = chosen.keep or Path(scratch)
            place.mkdir(parents=True, exist_ok=True)
            found = soak(place, chosen.out, chosen.devices, chosen.minutes, chosen.every)
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    for at_s, text in found.outcome.log:
        sys.stdout.write(f"{at_s:8.1f} s  {text}\n")
    for problem in found.problems:
        sys.stdout.write(f"NOT  {problem}\n")
    sys.stdout.write("both sides agree\n" if found.outcome.accounts.agrees else "")
    return 1 if found.problems else 0


def _check(chosen: argparse.Namespace) -> None:
    """See that the numbers make a trial.

    Raises:
        ConfigError: they do not.
    """
    if not 1 <= chosen.devices <= _MOST_DEVICES:
        raise ConfigError(f"--devices is 1 to {_MOST_DEVICES}")
    for name in ("minutes", "every"):
        if not 0.05 <= getattr(chosen, name) <= 100_000:
            raise ConfigError(f"--{name} is 0.05 to 100000")
    if chosen.keep is not None and chosen.keep.exists() and any(chosen.keep.iterdir()):
        raise ConfigError(f"{chosen.keep}: is not empty")


if __name__ == "__main__":
    sys.exit(main())
