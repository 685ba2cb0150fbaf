"""Time: the monotonic clock measures, the wall clock only labels.

Durations, ages and deadlines use `monotonic_ns`. A wall label carries whether the clock was synchronised and
the boot it was read in, because devices boot in 1970 and step by decades (evercam/ex_nvr #404). This module
alone may read the wall clock (ruff TID251 bans it elsewhere).
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_TIME_ERROR = 5  # adjtimex(2): clock not synchronised


@dataclass(frozen=True, slots=True)
class WallLabel:
    """A wall-clock reading, good for labels only.

    Attributes:
        unix_ns: nanoseconds since 1970-01-01 UTC as the device believed them.
        synced: whether the kernel says that the clock is synchronised.
        boot_id: the kernel's random id of this boot.
    """

    unix_ns: int
    synced: bool
    boot_id: str

    def isoformat(self) -> str:
        """The label as ISO 8601 in UTC with millisecond precision."""
        stamp = datetime.fromtimestamp(self.unix_ns / NS_PER_S, tz=timezone.utc)
        return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Clock(Protocol):
    """What rooms that measure time are given, so that tests can hand them a fake."""

    def monotonic_ns(self) -> int:
        """Nanoseconds on CLOCK_MONOTONIC."""
        ...

    def boottime_ns(self) -> int:
        """Nanoseconds on CLOCK_BOOTTIME: as monotonic, and it goes on while the machine is suspended."""
        ...

    def wall(self) -> WallLabel:
        """The wall clock as a label."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic_ns(self) -> int:
        """Nanoseconds on CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def boottime_ns(self) -> int:
        """Nanoseconds on CLOCK_BOOTTIME; on CLOCK_MONOTONIC where the system has no such clock."""
        return time.clock_gettime_ns(_BOOTTIME)

    def wall(self) -> WallLabel:
        """The wall clock as a label."""
        return WallLabel(time.time_ns(), wall_is_synced(), boot_id())


@lru_cache(maxsize=1)
def boot_id() -> str:
    """The kernel's id of this boot (`/proc/sys/kernel/random/boot_id`), or `unknown` off Linux."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def wall_is_synced() -> bool:
    """Whether adjtimex(2) reports a synchronised clock; False where it cannot be asked."""
    ask = _adjtimex()
    return ask is not None and ask() not in (-1, _TIME_ERROR)


@lru_cache(maxsize=1)
def _adjtimex() -> Callable[[], int] | None:
    """The system call with its buffer, made once: a look-up takes 15 us, a buffer 3, and both leave garbage.

    Threads may share the buffer: its `modes`, all that the kernel reads, stay 0, and nobody reads what it writes.
    """
    try:
        found: Callable[[Any], int] = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    return partial(found, ctypes.create_string_buffer(512))  # struct timex is 208 bytes; modes = 0 reads only
