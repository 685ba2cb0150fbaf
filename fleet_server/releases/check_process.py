"""`python -m fleet_server.releases.check_process DIR`: becomes `edge-runtime model check DIR --json`.

It ends with its parent, leaves no core file, yields to everything else, and has no more processor time than a check
may need. What is set here stays set for the program that takes its place.
"""

import os
import resource
import sys

from edge_runtime.lifeline import die_with_parent, leave_no_core

CPU_S = 1800
SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
"""For an interpreter: its working directory is no place for modules. Before 3.11 that has to be an empty one."""


def main() -> None:
    """Become the check."""
    die_with_parent()
    leave_no_core()
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    command = [
        sys.executable,
        *SAFE_PATH,
        "-m",
        "edge_runtime.cli.main",
        "model",
        "check",
        sys.argv[1],
        "--json",
    ]
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter


if __name__ == "__main__":
    main()
