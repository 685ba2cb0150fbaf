"""A file of health text, line by line: tegrastats, or what jtop left; what fits none is refused and counted."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from edge_runtime.health import jtop
from edge_runtime.health.reading import plain
from edge_runtime.health.tegrastats import MAX_LINE, NotTegrastats, parse_line


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text that is not blank.

    Attributes:
        number: from 1, blank lines counted.
        kind: `tegrastats`, `thermal_zone`, `power_rail`, `values`, or `refused`.
        record: JSON of what was read; for a refused line its `reason`.
    """

    number: int
    kind: str
    record: dict[str, Any]


class HealthLog:
    """Reads lines and counts what became of them.

    Attributes:
        kinds: how many lines of each kind were read, blank ones under `blank`.
        refusals: how many lines were refused, by reason.
    """

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._columns: tuple[str, ...] | None = None
        self._pairs = False

    def lines(self, text: Iterable[str]) -> Iterator[Line]:
        """Each line that is not blank, in order; nothing is raised for what a line holds."""
        for number, line in enumerate(text, 1):
            if not line.strip("\r\n\0 \t\ufeff"):
                self.kinds["blank"] += 1
                continue
            kind, record = self._read(line.lstrip("\ufeff"))
            self.kinds[kind] += 1
            if kind == "refused":
                self.refusals[record["reason"]] += 1
            yield Line(number, kind, record)

    def _read(self, line: str) -> tuple[str, dict[str, Any]]:
        try:
            return "tegrastats", plain(parse_line(line))
        except NotTegrastats as error:
            refusal = str(error)
        if len(line) > MAX_LINE:
            return "refused", {"reason": refusal}
        note = jtop.note_of(line)
        if note is not None:
            return ("thermal_zone" if isinstance(note, jtop.ZoneName) else "power_rail"), plain(note)
        values = self._csv(line)
        if values is not None:
            return "values", plain(values)
        return "refused", {"reason": refusal}

    def _csv(self, line: str) -> jtop.Values | None:
        """CSV counts only below its own heading: a comma alone makes no table of a sentence."""
        if jtop.is_heading(line):
            self._pairs, self._columns = True, None
            return jtop.Values({})
        if jtop.begins_pairs(line):
            self._pairs, self._columns = True, None
        if (columns := jtop.columns_of(line)) is not None:
            self._pairs, self._columns = False, columns
            return jtop.Values({})
        if self._columns is not None:
            return jtop.row_of(line, self._columns)
        return jtop.value_of(line) if self._pairs else None


def read_lines(stream: TextIO) -> Iterator[str]:
    """The lines of a stream in bounded pieces: a file without a line end does not fill the memory."""
    while line := stream.readline(2 * MAX_LINE):
        yield line
        while line and not line.endswith("\n"):
            line = stream.readline(2 * MAX_LINE)
