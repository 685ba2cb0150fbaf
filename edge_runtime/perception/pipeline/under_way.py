"""What a lane's threads are at, and since when: how a stuck one is found by a thread that is not.

A thread that waits for work is at nothing. One that is at a unit of work for longer than that may take is stuck: a
driver's call that never returns ignores every time limit of its library.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from edge_runtime.sources.frame import Frame


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A unit of work that a thread has begun and not finished.

    Attributes:
        thread: its name.
        since_ns: when it began, CLOCK_MONOTONIC.
        due_ns: it must be over by then.
        captured: (camera, capture_ns) of the frames in it.
    """

    thread: str
    since_ns: int
    due_ns: int
    captured: tuple[tuple[str, int], ...]


class WorkBoard:
    """One place for each thread of a lane. A thread writes its own, anybody reads all; nobody waits.

    Args:
        threads: their names.
    """

    def __init__(self, threads: tuple[str, ...]) -> None:
        self._threads = threads
        self._places: list[UnderWay | None] = [None] * len(threads)

    def begin(self, place: int, now_ns: int, limit_ns: int, frames: Iterable[Frame]) -> None:
        """The thread of `place` begins a unit with these frames that may take `limit_ns`."""
        captured = tuple((frame.source, frame.capture_ns) for frame in frames)
        # one store of one reference: a reader sees the whole record or the one before
        self._places[place] = UnderWay(self._threads[place], now_ns, now_ns + limit_ns, captured)

    def end(self, place: int) -> None:
        """It has finished it."""
        self._places[place] = None

    def under_way(self) -> list[UnderWay]:
        """What is being worked at now."""
        return [unit for unit in self._places if unit is not None]
