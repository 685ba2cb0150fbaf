"""Ratios from pairs: ours and the reference run back to back, in alternating order, and medians are compared.

On a shared machine absolute rates drift by tens of percent within minutes; the ratio inside a pair does not. A pair
during which other processes took more than a tenth of a core is measured again, within a budget of retries.
"""

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock

_DISTURBED = 0.12
"""Cores taken by others during a sample beyond which the pair is measured again."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed pass.

    Attributes:
        fps: frames per second of wall time.
        cpu_ms: processor time of this process per frame.
        others: cores taken by other processes meanwhile.
    """

    fps: float
    cpu_ms: float
    others: float


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """Medians over pairs.

    Attributes:
        ratio: median of ours / reference within a pair.
        low, high: quartiles of that ratio.
        disturbed: pairs that were measured while others used the machine.
    """

    ratio: float
    low: float
    high: float
    fps: float
    reference_fps: float
    cpu_ms: float
    reference_cpu_ms: float
    pairs: int
    disturbed: int


def _busy_seconds() -> float:
    fields = [int(v) for v in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def timed(clock: Clock, work: Callable[[], int]) -> Sample:
    """Run `work`, which returns how many frames it did."""
    busy, cpu, begun = _busy_seconds(), os.times(), clock.monotonic_ns()
    frames = work()
    seconds = (clock.monotonic_ns() - begun) / NS_PER_S
    after = os.times()
    own = after.user + after.system - cpu.user - cpu.system
    others = max(0.0, (_busy_seconds() - busy - own) / seconds)
    return Sample(frames / seconds, own * 1000 / frames, others)


def measure_pairs(
    clock: Clock,
    ours: Callable[[], int],
    reference: Callable[[], int],
    pairs: int,
    progress: Callable[[], None] = lambda: None,
) -> PairedRatio:
    """Measure `pairs` pairs; each callable runs one pass and returns its frames.

    A disturbed pair is repeated while retries (as many as pairs) last; after that it counts, and is reported.
    """
    kept: list[tuple[Sample, Sample]] = []
    retries, disturbed = pairs, 0
    while len(kept) < pairs:
        if len(kept) % 2:
            mine = timed(clock, ours)
            theirs = timed(clock, reference)
        else:
            theirs = timed(clock, reference)
            mine = timed(clock, ours)
        if max(mine.others, theirs.others) > _DISTURBED:
            if retries > 0:
                retries -= 1
                continue
            disturbed += 1
        kept.append((mine, theirs))
        progress()
    ratios = sorted(mine.fps / theirs.fps for mine, theirs in kept)
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return PairedRatio(
        ratio=statistics.median(ratios),
        low=quartiles[0],
        high=quartiles[2],
        fps=statistics.median(mine.fps for mine, _ in kept),
        reference_fps=statistics.median(theirs.fps for _, theirs in kept),
        cpu_ms=statistics.median(mine.cpu_ms for mine, _ in kept),
        reference_cpu_ms=statistics.median(theirs.cpu_ms for _, theirs in kept),
        pairs=len(kept),
        disturbed=disturbed,
    )
