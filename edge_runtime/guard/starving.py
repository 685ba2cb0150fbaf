"""How long the threads of a process waited for a processor, as the kernel counts it.

The kernel adds a thread's wait to its count when the wait ends. A thread that gets no processor at all therefore
shows none, just when it matters: measured, a sound worker between busy real-time processes was taken for hung. Of a
thread that has not gone to sleep in between and is ready at the end, the wait is all the time that it did not run.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

_TOLD = ("schedstat", "status")
_READY = "R"
_SLEPT = "voluntary_ctxt_switches:"


class Task(NamedTuple):
    """One thread, at one moment.

    Attributes:
        ran_ns: how long it had a processor.
        waited_ns: how long it waited for one, without a wait that still goes on.
        sleeps: how often it went to sleep.
        ready: whether it runs, or would if it had a processor.
    """

    ran_ns: int
    waited_ns: int
    sleeps: int
    ready: bool


def tasks_of(pid: int) -> dict[int, Task] | None:
    """The threads of a process by their ids; None where the kernel does not say."""
    found = {}
    try:
        for name in os.listdir(f"/proc/{pid}/task"):
            found[int(name)] = _task(*(_read(f"/proc/{pid}/task/{name}/{what}") for what in _TOLD))
    except (OSError, ValueError, IndexError):
        return None
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # a thread's name may hold anything
        return file.read()


def _task(schedstat: str, status: str) -> Task:
    ran, waited = (int(word) for word in schedstat.split()[:2])
    fields = {line.split()[0]: line.split()[1] for line in status.splitlines() if len(line.split()) > 1}
    return Task(ran, waited, int(fields.get(_SLEPT, "-1")), fields.get("State:") == _READY)


def waited_ns(before: Mapping[int, Task], after: Mapping[int, Task], gap_ns: int) -> int:
    """How long threads waited for a processor between two looks, all together.

    Args:
        before: the threads at the first look.
        after: at the second; those that began or ended meanwhile do not count.
        gap_ns: between the two.
    """
    return sum(_waited(before[at], after[at], gap_ns) for at in before.keys() & after.keys())


def _waited(before: Task, after: Task, gap_ns: int) -> int:
    ran_ns = after.ran_ns - before.ran_ns
    # One that slept at the first look and has run since may have woken at any time: what it waited is counted.
    if after.ready and before.sleeps == after.sleeps and (before.ready or ran_ns == 0):
        return max(0, gap_ns - ran_ns)
    return after.waited_ns - before.waited_ns
