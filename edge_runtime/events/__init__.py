"""Rules and bounded events: what counts as a happening, and the records that say so.

`EventDesk` turns the frames and tracks of one camera into records; `EvidenceRing` keeps crops on the device;
`NdjsonSink` writes the records down.
"""

from edge_runtime.events.counters import EventCounters
from edge_runtime.events.desk import EventDesk
from edge_runtime.events.evidence import EvidenceRing, EvidenceUnavailable
from edge_runtime.events.labels import LabelBook, translated
from edge_runtime.events.origin import CAMERA_RULE, Unobserved
from edge_runtime.events.sink import NdjsonSink

__all__ = [
    "CAMERA_RULE",
    "EventCounters",
    "EventDesk",
    "EvidenceRing",
    "EvidenceUnavailable",
    "LabelBook",
    "NdjsonSink",
    "Unobserved",
    "translated",
]
