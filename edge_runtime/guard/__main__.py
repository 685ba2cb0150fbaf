"""`python -m edge_runtime.guard --settings-fd N`: the guard's process, started by `edge-runtime run` or a service.

Exit codes: 0 asked to end, 2 it cannot guard as it is set up; and that of a worker whose end is that of the run, or
128 and the number of the signal that killed it.
"""

import os
import signal
import sys
from collections.abc import Sequence

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard import realtime
from edge_runtime.guard.loop import Guard
from edge_runtime.guard.settings import Settings, read, require_safe
from edge_runtime.lifeline import PARENT, die_with_parent, leave_no_core

USAGE = "usage: python -m edge_runtime.guard --settings-fd N (started by edge-runtime)"
OOM_SCORE = -1000


def main(arguments: Sequence[str]) -> int:
    """Guard until SIGTERM, SIGINT or SIGHUP, or until a worker's end is that of the run."""
    if len(arguments) != 2 or arguments[0] != "--settings-fd" or not arguments[1].isdecimal():
        sys.stderr.write(USAGE + "\n")
        return 2
    leave_no_core()
    try:
        settings = read(int(arguments[1]))
        # What is asked for comes before the sockets and children: they would inherit less than they should.
        facts = realtime.come_first(realtime.GUARD_PRIORITY, OOM_SCORE) if settings.real_time else ()
        require_safe(settings, realtime=any(fact.name == "sched_fifo" and fact.done for fact in facts))
        guard = Guard(settings, dict(os.environ), facts, lambda: _rest(settings))
    except EdgeRuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"the guard cannot start: {error}\n")
        return 2
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: guard.end())
    _say(facts)
    return guard.run()


def _rest(settings: Settings) -> tuple[realtime.Fact, ...]:
    """What can wait until the guard has evaluated first."""
    if PARENT in os.environ:  # a service has none that it would end with
        die_with_parent(signal.SIGTERM)
    facts = realtime.stay_on_time() if settings.real_time else ()
    _say(facts)
    return facts


def _say(facts: Sequence[realtime.Fact]) -> None:
    """What was refused; all of them are in the status."""
    for fact in facts:
        if not fact.done:
            sys.stderr.write(f"guard: {fact.text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
