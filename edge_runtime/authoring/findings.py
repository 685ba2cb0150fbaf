"""What an import found out, and how sure it is: a person reviews the guesses before a package runs."""

from dataclasses import dataclass
from enum import Enum


class Confidence(str, Enum):
    """How a value came about."""

    SURE = "sure"
    """Read from the file, or proved by running the graph."""
    GUESS = "guess"
    """The usual choice; nothing in the file decides it."""
    REPAIRED = "repaired"
    """The file said something else, and running the graph proved it wrong."""
    DEFECT = "defect"
    """Something is wrong that an import cannot repair; `model check` will call the package unfit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One value of the proposed manifest.

    Attributes:
        field: dotted path in the manifest.
        value: as text.
        confidence: how it came about.
        why: the evidence, or the reason for the guess.
    """

    field: str
    value: str
    confidence: Confidence
    why: str


def sure(field: str, value: object, why: str) -> Finding:
    """A value that was read or proved."""
    return Finding(field, str(value), Confidence.SURE, why)


def guess(field: str, value: object, why: str) -> Finding:
    """A value that nothing in the file decides."""
    return Finding(field, str(value), Confidence.GUESS, why)


def repaired(field: str, value: object, why: str) -> Finding:
    """A declaration that running the graph proved wrong."""
    return Finding(field, str(value), Confidence.REPAIRED, why)


def defect(field: str, value: object, why: str) -> Finding:
    """Something wrong that stays in the package."""
    return Finding(field, str(value), Confidence.DEFECT, why)
