"""What crosses a boundary: records, topics, their vocabulary and their bytes. Knows no other room.

Records of delivery, decisions, operation and enrolment are imported from their modules; what every room needs
is exported here.
"""

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
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, EvidenceMode, Fate, Reason, Severity
from edge_runtime.protocol.wire import PROTOCOL, WireError, WireFault, WireRecord

__all__ = [
    "MAX_EVENT_BYTES",
    "PROTOCOL",
    "Box",
    "Channel",
    "DataClass",
    "DecisionKind",
    "EventRecord",
    "EventState",
    "EventTime",
    "EventTooLarge",
    "EvidenceMode",
    "EvidenceRef",
    "Fate",
    "Reason",
    "Severity",
    "Topic",
    "WireError",
    "WireFault",
    "WireRecord",
    "encode_event",
    "uuid7",
]
