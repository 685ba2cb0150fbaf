"""`python -m edge_runtime.guard.motion_gate --settings-fd N`, started by the guard."""

import sys
from collections.abc import Sequence

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard import realtime
from edge_runtime.guard.lease import LeaseReader
from edge_runtime.guard.motion_gate.process import MotionGate, serve
from edge_runtime.guard.motion_gate.settings import read
from edge_runtime.guard.page import SlotWriter
from edge_runtime.lifeline import leave_no_core

USAGE = "usage: python -m edge_runtime.guard.motion_gate --settings-fd N (started by the guard)"
OOM_SCORE = -1000


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when it was told to end, 2 when it cannot start as told."""
    if len(arguments) != 2 or arguments[0] != "--settings-fd" or not arguments[1].isdecimal():
        sys.stderr.write(USAGE + "\n")
        return 2
    leave_no_core()
    try:
        settings = read(int(arguments[1]))
        lease, slot = LeaseReader.from_environment(), SlotWriter.from_environment()
        facts: tuple[realtime.Fact, ...] = ()
        if settings.real_time:
            # the scheduler last: what takes its time before is done as an ordinary process
            facts = (
                *realtime.stay_on_time(),
                *realtime.come_first(realtime.GATE_PRIORITY, OOM_SCORE),
            )
        return serve(MotionGate(settings, lease, slot, facts=facts), facts)
    except EdgeRuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
