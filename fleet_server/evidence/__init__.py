"""Evidence that devices upload: only what a committed decision let go, by digest, resumable, within a quota."""

from fleet_server.evidence.problems import (
    EvidenceBusy,
    EvidenceProblem,
    EvidenceTooLong,
    NotExpected,
    QuotaFull,
    StorageFull,
    WrongDigest,
    WrongOffset,
)
from fleet_server.evidence.store import EvidenceStore, Upload

__all__ = [
    "EvidenceBusy",
    "EvidenceProblem",
    "EvidenceStore",
    "EvidenceTooLong",
    "NotExpected",
    "QuotaFull",
    "StorageFull",
    "Upload",
    "WrongDigest",
    "WrongOffset",
]
