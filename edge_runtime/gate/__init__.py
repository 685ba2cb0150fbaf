"""The gate: what may leave the device. Classifies by the event's label, decides by policy, redacts, and receipts.

`Gate` takes the events of a node and submits what policy permits to the outbox; everything else waits for a person
(`Reviewer`) or stays. It can never reach what keeps a machine safe: no import leads from here to the guard.
"""

from edge_runtime.gate.crops import CropFolder, CropMissing, Crops
from edge_runtime.gate.gate import Gate, GateSettings, OutboxPort
from edge_runtime.gate.policy_file import InForce, PolicyFile, read_policy
from edge_runtime.gate.redaction import RedactionFailed, Redactor, WholeBlur
from edge_runtime.gate.regions import RegionRedactor
from edge_runtime.gate.tally import GateStatus

__all__ = [
    "CropFolder",
    "CropMissing",
    "Crops",
    "Gate",
    "GateSettings",
    "GateStatus",
    "InForce",
    "OutboxPort",
    "PolicyFile",
    "RedactionFailed",
    "Redactor",
    "RegionRedactor",
    "WholeBlur",
    "read_policy",
]
