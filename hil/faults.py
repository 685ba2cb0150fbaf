"""Fault bits of a device before and after a test: what is new fails the test's tear-down."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["latch", "throttled", "over_current", "memory_error", "kernel"]

_KERNEL = re.compile(
    r"\bOops\b|\bBUG:|kernel panic|Internal error|Hardware Error|[Uu]ncorrect(?:ed|able)|soft lockup"
    r"|blocked for more than \d+ seconds|Out of memory: Killed|RAS Error",
)
"""Lines of a kernel's log that no healthy board writes."""

_MOST_LINES = 50


@dataclass(frozen=True, slots=True)
class FaultBits:
    """What a device says is wrong.

    Attributes:
        latch: id of what is latched; None where nothing is.
        throttled: how often the hardware slowed itself down, and whether it does now.
        over_current: events of the power supply.
        memory_errors: that could not be corrected.
        kernel: lines of the kernel's log about what should not be, in order.
        unread: what nobody could ask, a sentence each.
    """

    latch: str | None = None
    throttled: int = 0
    over_current: int = 0
    memory_errors: int = 0
    kernel: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewFault:
    """One fault that was not there before."""

    kind: FaultKind
    text: str


def new_faults(before: FaultBits, after: FaultBits) -> list[NewFault]:
    """What a test has left behind. A counter that fell was set to zero by a boot, and counts from there."""
    found: list[NewFault] = []
    if after.latch is not None and after.latch != before.latch:
        found.append(
            NewFault("latch", f"latch {after.latch} is left over: nothing moves until it is cleared")
        )
    for kind, name, now, was in (
        ("throttled", "the hardware slowed itself down", after.throttled, before.throttled),
        ("over_current", "over-current events", after.over_current, before.over_current),
        ("memory_error", "memory errors beyond correction", after.memory_errors, before.memory_errors),
    ):
        more = now - was if now >= was else now
        if more:
            found.append(NewFault(kind, f"{name}: {more} more"))  # type: ignore[arg-type]
    known = set(before.kernel)
    found += [NewFault("kernel", f"the kernel says: {line}") for line in after.kernel if line not in known]
    return found


def kernel_faults(lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines of a kernel's log that tell of a fault."""
    found = [line.strip()[:300] for line in lines if _KERNEL.search(line)]
    return tuple(found[-_MOST_LINES:])
