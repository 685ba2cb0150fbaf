"""Closed vocabularies: data classes and severities, ordered by how careful one must be."""

from enum import Enum


class DataClass(str, Enum):
    """How sensitive what a camera sees is; `unknown` is handled as restricted and held."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"
    UNKNOWN = "unknown"

    @property
    def rank(self) -> int:
        """Larger is more careful; `unknown` is the most careful of all."""
        return list(DataClass).index(self)

    def at_least(self, other: "DataClass") -> "DataClass":
        """The more careful of the two: content or a zone may raise a class, never lower it."""
        return self if self.rank >= other.rank else other


class Severity(str, Enum):
    """How much an event matters; eviction and pacing look at it first."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info to 3 for critical."""
        return list(Severity).index(self)
