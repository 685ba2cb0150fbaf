"""The uplink's process alone: `python -m edge_runtime.uplink --state DIR [--settings JSON|@FILE|-]`.

Prints `ready` once it works, connected or not. SIGTERM and SIGINT end it cleanly: outcomes are reported, presence
says that it was stopped. SIGKILL loses nothing. It knows no gate, so that held items cannot be reviewed from afar
through it; `edge_runtime.node.uplink_process` can. Exit codes: 0 ended cleanly, 1 only a new process helps, 2 its
arguments or the identity cannot be used.
"""

import argparse
import sys
from pathlib import Path

from edge_runtime.clock import SystemClock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.lifeline import die_with_parent, leave_no_core
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import configure_logging
from edge_runtime.uplink.enrolled import enrolled, renewal
from edge_runtime.uplink.ports import Hands
from edge_runtime.uplink.process import run
from edge_runtime.uplink.settings import UplinkSettings


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal asks for the end; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m edge_runtime.uplink", description="The uplink's process."
    )
    parser.add_argument("--state", type=Path, help="state directory")
    parser.add_argument(
        "--settings", default="{}", help="settings as JSON; - reads standard input, @FILE a file"
    )
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")
    options = parser.parse_args(arguments)
    leave_no_core()
    if options.with_parent:
        die_with_parent()
    configure_logging("info")
    clock = SystemClock()
    try:
        settings = UplinkSettings.from_argument(options.settings)
        state = StateDirectory.find(options.state)
        hands = Hands(renew=renewal(state, clock, settings.proxy))
        return run(state, settings, enrolled(state, clock), hands, clock)
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
