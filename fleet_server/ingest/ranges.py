"""Which sequence numbers are settled, and how far without a gap: runs of numbers, merged and folded. Pure.

The first fate that is known of a number stays: what a device gave up after the server had committed it was
delivered, whatever the device says later.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edge_runtime.protocol.delivery import Range


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Sequence numbers from `first` to `last`, both included, that ended in one fate."""

    first: int
    last: int
    fate: str

    @property
    def length(self) -> int:
        """How many numbers it has."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one outbox file is settled.

    Attributes:
        high: every number up to here is settled.
        runs: settled beyond `high`, ascending, apart from each other or of different fates; the first begins
            after `high + 1`.
    """

    high: int = 0
    runs: tuple[Run, ...] = ()

    def is_settled(self, number: int) -> bool:
        """Whether this number has a fate."""
        if number <= self.high:
            return True
        place = _first_ending_at_or_after(self.runs, number)
        return place < len(self.runs) and self.runs[place].first <= number


@dataclass(frozen=True, slots=True)
class Settlement:
    """What new fates changed.

    Attributes:
        progress: the state after it.
        settled: numbers that had no fate before, by fate.
        folded: numbers that `high` has passed now, by fate.
    """

    progress: Progress
    settled: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)


def settle(before: Progress, incoming: Iterable[Run]) -> Settlement:
    """Give numbers a fate; those that have one keep it."""
    fresh = joined(incoming)
    if not before.runs and len(fresh) == 1 and fresh[0].first == before.high + 1:
        (run,) = fresh  # the next ones and no gap, which is the rule
        return Settlement(
            Progress(run.last), Counter({run.fate: run.length}), Counter({run.fate: run.length})
        )
    settled: Counter[str] = Counter()
    runs = list(before.runs)
    for run in fresh:
        for piece in _without(run, before.high, runs):
            settled[piece.fate] += piece.length
            runs.insert(_first_ending_at_or_after(runs, piece.first), piece)
    high, folded = before.high, Counter[str]()
    rest = joined(runs)
    passed = 0
    for run in rest:
        if run.first != high + 1:
            break
        high = run.last
        folded[run.fate] += run.length
        passed += 1
    return Settlement(Progress(high, tuple(rest[passed:])), settled, folded)


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same runs in ascending order, neighbours of one fate made one. Overlapping ones stay apart."""
    merged: list[Run] = []
    for run in sorted(runs):
        if merged and merged[-1].fate == run.fate and run.first == merged[-1].last + 1:
            merged[-1] = Run(merged[-1].first, run.last, run.fate)
        else:
            merged.append(run)
    return merged


def ranges_of(numbers: Iterable[int]) -> list[Range]:
    """Numbers as ascending ranges; repeated ones count once."""
    distinct = set(numbers)
    if distinct and max(distinct) - min(distinct) + 1 == len(distinct):
        return [(min(distinct), max(distinct))]
    found: list[Range] = []
    for number in sorted(distinct):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _without(run: Run, high: int, runs: Sequence[Run]) -> list[Run]:
    """The parts of a run whose numbers have no fate yet."""
    pieces: list[Run] = []
    first = max(run.first, high + 1)
    place = _first_ending_at_or_after(runs, first)
    while first <= run.last:
        if place == len(runs) or runs[place].first > run.last:
            pieces.append(Run(first, run.last, run.fate))
            break
        if runs[place].first > first:
            pieces.append(Run(first, runs[place].first - 1, run.fate))
        first = runs[place].last + 1
        place += 1
    return pieces


def _first_ending_at_or_after(runs: Sequence[Run], number: int) -> int:
    """Place of the first run that ends at `number` or later."""
    return bisect_left(runs, number, key=lambda run: run.last)
