"""Entries of the guard's flight ring as records of the flight recorder."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_runtime.clock import NS_PER_MS, Clock, WallLabel
from edge_runtime.guard.ring import Kind, RingEntry
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.protocol import uuid7

_KINDS: Mapping[int, str] = {Kind.CHANGE: "change", Kind.TURN: "turn", Kind.WORKER: "worker", Kind.ACT: "act"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment on both clocks, by which others of the same boot are labelled.

    Attributes:
        now_ns: CLOCK_MONOTONIC.
        wall: the label of that moment.
    """

    now_ns: int
    wall: WallLabel

    @classmethod
    def take(cls, clock: Clock) -> "Stamp":
        """Now."""
        return cls(clock.monotonic_ns(), clock.wall())

    def unix_ns(self, at_ns: int) -> int:
        """The label of another moment of this boot."""
        return max(0, self.wall.unix_ns - (self.now_ns - at_ns))

    def record(self, kind: str, fields: dict[str, Any], at_ns: int | None = None) -> FlightRecord:
        """A record of this moment, or of another one of this boot."""
        moment_ns = self.now_ns if at_ns is None else at_ns
        return FlightRecord(
            kind,
            moment_ns,
            self.unix_ns(moment_ns) // NS_PER_MS,
            self.wall.synced,
            self.wall.boot_id,
            fields,
        )


def records_of(entries: Iterable[RingEntry], ring: str, stamp: Stamp, *, events: bool) -> list[FlightRecord]:
    """Records of what the guard wrote down.

    Args:
        entries: in their order.
        ring: which guard's ring they are of.
        stamp: dates them.
        events: give each change the id of an event.
    """
    return [_record(entry, ring, stamp, events=events) for entry in entries]


def _record(entry: RingEntry, ring: str, stamp: Stamp, *, events: bool) -> FlightRecord:
    fields: dict[str, Any] = {"ring": ring, "sequence": entry.sequence}
    kind = _KINDS.get(entry.kind)
    content = _content(entry.payload)
    if kind is None or content is None:  # of a newer guard: kept, so that a newer reader can read it
        return stamp.record(
            "other", {**fields, "of": entry.kind, "payload": entry.payload.hex()}, entry.at_ns
        )
    if events and kind == "change":
        fields["event"] = uuid7(stamp.unix_ns(entry.at_ns))
    return stamp.record(kind, {**content, **fields}, entry.at_ns)


def _content(payload: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
