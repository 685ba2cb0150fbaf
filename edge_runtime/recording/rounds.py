"""What is recorded of the monitor's process: the readings of each round, and all that the guard wrote down."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from edge_runtime.monitor.conditions import Judgement
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.monitor.readings import Readings
from edge_runtime.recording.readings import changed
from edge_runtime.recording.writer import RecordingWriter

WHOLE_EVERY = 50
"""Rounds: so often all readings are written, so that a recording without its beginning can be read."""

_DERIVED = frozenset({"measured", "handed"})
"""Kinds of records of which nothing can be replayed."""


class RoundRecorder:
    """Looks on at the rounds of a monitor. Changes nothing, and never raises.

    Args:
        writer: takes the records.
    """

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._before: Readings | None = None
        self._rounds = 0

    def round(
        self, now_ns: int, readings: Readings, judged: Judgement, records: Sequence[FlightRecord]
    ) -> None:
        """One round.

        Args:
            now_ns: when it was judged.
            readings: of it.
            judged: what it found.
            records: what goes to the flight recorder: of the guard, of faults and of conditions.
        """
        before = None if self._rounds % WHOLE_EVERY == 0 else self._before
        self._before, self._rounds = readings, self._rounds + 1
        self._writer.put("round", partial(_round_fields, before, readings, judged), at_ns=now_ns)
        for record in records:
            if record.kind not in _DERIVED:
                self._writer.put("flight", partial(_flight_fields, record), at_ns=record.at_ns)


def _round_fields(before: Readings | None, readings: Readings, judged: Judgement) -> dict[str, Any]:
    return {
        "whole": before is None,
        "readings": changed(before, readings),
        "evaluated": judged.evaluated,
        "tripped": judged.tripped,
    }


def _flight_fields(record: FlightRecord) -> dict[str, Any]:
    return {"record": record.to_json()}
