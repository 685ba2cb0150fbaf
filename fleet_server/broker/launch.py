"""Executed as a script between the server and nats-server: `launch.py PARENT PROGRAM ARGUMENTS…`.

It asks the kernel to end it with its parent and becomes the program; the request outlives that. A function that
runs in the child before exec would do the same, but not safely in a process with threads.
"""

import os
import sys

from edge_runtime.lifeline import die_with_parent


def main(arguments: list[str]) -> None:
    """Become the program, unless the parent has ended already."""
    parent, *command = arguments
    die_with_parent(parent=int(parent))
    os.execv(command[0], command)  # noqa: S606 - no shell: the path and its arguments are the server's own


if __name__ == "__main__":
    main(sys.argv[1:])
