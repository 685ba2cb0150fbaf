"""The outbox: a durable, bounded, expiring queue in which every accepted event ends in exactly one counted fate."""

from edge_runtime.outbox.client import OutboxClient
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.records import (
    DeadLetter,
    EvidenceDue,
    EvidenceFile,
    Health,
    HeldEntry,
    HeldItem,
    NotAccepted,
    OutboxError,
    OutboxStatus,
    OutboxUnavailable,
    Put,
    PutResult,
    QueuedEntry,
    QueuedItem,
    Settled,
    Submission,
    SyncPoint,
)
from edge_runtime.outbox.server import OutboxServer
from edge_runtime.outbox.settings import OutboxSettings

__all__ = [
    "DeadLetter",
    "EvidenceDue",
    "EvidenceFile",
    "Health",
    "HeldEntry",
    "HeldItem",
    "NotAccepted",
    "Outbox",
    "OutboxClient",
    "OutboxError",
    "OutboxServer",
    "OutboxSettings",
    "OutboxStatus",
    "OutboxUnavailable",
    "Put",
    "PutResult",
    "QueuedEntry",
    "QueuedItem",
    "Settled",
    "Submission",
    "SyncPoint",
]
