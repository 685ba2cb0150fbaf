"""What crosses a boundary: records, their vocabulary and their bytes. Knows no other room."""

from edge_runtime.protocol.event import (
    MAX_EVENT_BYTES,
    Box,
    EventRecord,
    EventState,
    EventTime,
    EventTooLarge,
    EvidenceRef,
    encode_event,
)
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.vocabulary import DataClass, Severity

__all__ = [
    "MAX_EVENT_BYTES",
    "Box",
    "DataClass",
    "EventRecord",
    "EventState",
    "EventTime",
    "EventTooLarge",
    "EvidenceRef",
    "Severity",
    "encode_event",
    "uuid7",
]
