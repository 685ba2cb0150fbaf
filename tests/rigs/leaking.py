"""A process that leaks as it is told: `python -m tests.rigs.leaking memory descriptors log`, a step for each line.

It answers each line of its standard input once it has done a step, so that a test is as fast as the machine and
waits for nothing.
"""

import sys
import tempfile

STEP_MIB, STEP_BYTES = 2, 4096


def main(leaks: set[str]) -> None:
    """Do a step for each line."""
    kept: list[object] = []
    for line in sys.stdin:
        if "memory" in leaks:
            kept.append(b"\1" * (STEP_MIB << 20))
        if "descriptors" in leaks:
            kept.append(tempfile.TemporaryFile())  # noqa: SIM115 - left open: that is the leak
        if "log" in leaks:
            sys.stderr.write("x" * (STEP_BYTES - 1) + "\n")
            sys.stderr.flush()
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main(set(sys.argv[1:]))
