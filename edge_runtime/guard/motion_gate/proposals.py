"""Datagrams to the motion gate: a proposed command, or an approval of a risky action.

    {"seq": 41, "at_ns": 5123456789, "ttl_ms": 100, "action": "drive", "values": {"v_m_s": 0.4, "w_rad_s": 0.0}}
    {"approval": {"text": "…base64…", "key": "shift-lead", "signature": "…base64…"}}

One JSON object of at most 1 KiB with exactly these keys. `at_ns` is CLOCK_MONOTONIC of this machine.
"""

import json
from collections.abc import Mapping

from edge_runtime.guard.block import LARGEST
from edge_runtime.guard.motion_gate.approvals import Record, parse_record
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.strict_json import strict_json

LARGEST_DATAGRAM = 1024
"""Bytes."""

MOST_AXES = 16
_NS_PER_MS = 1_000_000
_LONGEST_MS = 60_000
_KEYS = frozenset({"seq", "at_ns", "ttl_ms", "action", "values"})
_APPROVAL_KEYS = frozenset({"approval"})


class Malformed(ValueError):
    """The datagram is no proposal."""


def parse(datagram: bytes) -> Proposal | Record:
    """What a datagram says.

    Raises:
        Malformed: it is no proposal, and no approval either.
        NotAnApproval: it says that it is an approval, and is none.
    """
    if len(datagram) > LARGEST_DATAGRAM:
        raise Malformed(f"longer than {LARGEST_DATAGRAM} bytes")
    try:
        value = strict_json(datagram)
    except ValueError as error:
        raise Malformed(str(error)) from None
    if not isinstance(value, dict):
        raise Malformed("not an object")
    if value.keys() == _APPROVAL_KEYS:
        return parse_record(value["approval"])
    if value.keys() != _KEYS:
        raise Malformed("wrong keys")
    return Proposal(
        sequence=_whole(value["seq"], 0, LARGEST),
        proposed_ns=_whole(value["at_ns"], 0, LARGEST),
        ttl_ns=_whole(value["ttl_ms"], 1, _LONGEST_MS) * _NS_PER_MS,
        action=_name(value["action"]),
        values=_values(value["values"]),
    )


def encode(proposal: Proposal) -> bytes:
    """A proposal as a datagram; its time to live is rounded down to milliseconds."""
    return _encoded(
        {
            "seq": proposal.sequence,
            "at_ns": proposal.proposed_ns,
            "ttl_ms": proposal.ttl_ns // _NS_PER_MS,
            "action": proposal.action,
            "values": dict(proposal.values),
        }
    )


def encode_approval(record: Mapping[str, str]) -> bytes:
    """An approval, as a file holds it, as a datagram."""
    return _encoded({"approval": dict(record)})


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _whole(value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Malformed(f"not a whole number in [{low}, {high}]")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise Malformed("not a name of 1 to 64 characters")
    return value


def _values(value: object) -> dict[str, float]:
    if not isinstance(value, dict) or not 0 < len(value) <= MOST_AXES:
        raise Malformed(f"not 1 to {MOST_AXES} values")
    return {_name(name): _number(number) for name, number in value.items()}


def _number(value: object) -> float:
    """A double. 1e999 is one to JSON and becomes infinite here; the judge refuses it by that name."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Malformed("not a number")
    try:
        return float(value)
    except OverflowError:
        raise Malformed("a number too large for a double") from None
