"""A chain of stages against a limit: at its best and at its worst, which are two numbers."""

from fractions import Fraction
from typing import NamedTuple

from edge_runtime.errors import ConfigError


class Stage(NamedTuple):
    """One stage of a chain.

    Attributes:
        name: of it.
        best, worst: seconds; the same where only one is known.
    """

    name: str
    best: Fraction
    worst: Fraction


class Chain(NamedTuple):
    """What a chain takes.

    Attributes:
        best, worst: seconds.
        over: limits in seconds that even the best is over, the greatest first.
        may_be_over: those that only the worst is over.
    """

    best: Fraction
    worst: Fraction
    over: tuple[Fraction, ...]
    may_be_over: tuple[Fraction, ...]


def chain(stages: tuple[Stage, ...], limits: tuple[Fraction, ...]) -> Chain:
    """Add stages up.

    Args:
        stages: one after another.
        limits: seconds.

    Raises:
        ConfigError: there is none, or a best is worse than its worst.
    """
    if not stages:
        raise ConfigError("a chain has one stage at least")
    for stage in stages:
        if not 0 <= stage.best <= stage.worst:
            raise ConfigError(f"{stage.name}: the best is at most the worst, and neither is below 0")
    best, worst = sum((s.best for s in stages), Fraction(0)), sum((s.worst for s in stages), Fraction(0))
    ordered = sorted(limits, reverse=True)
    return Chain(
        best,
        worst,
        tuple(limit for limit in ordered if best > limit),
        tuple(limit for limit in ordered if best <= limit < worst),
    )


def reading_s(words: Fraction, rate: Fraction, tokens_per_word: Fraction) -> Fraction:
    """Seconds until so many words are written at a rate of tokens a second.

    Raises:
        ConfigError: a number is not above 0.
    """
    if min(words, rate, tokens_per_word) <= 0:
        raise ConfigError("words, tokens a second and tokens of a word have to be above 0")
    return words * tokens_per_word / rate
