"""Sealed reports on the disk: numbered, signed with the device's key, kept until the fleet has them.

A terminal report stays until the server says that it has committed it, however often the link or this device fails.
A report of progress is worth one try, and goes when there are too many.
"""

import json
from collections.abc import Iterable

from securesystemslib.signer import Signer

from edge_runtime.protocol.envelope import read_envelope, seal
from edge_runtime.protocol.update import REPORT_TYPE, SettledEnd, StateReport
from edge_runtime.protocol.update_wire import REPORT_FILE
from edge_runtime.protocol.wire import WireError
from edge_runtime.updates.process.ports import Keeping

FOLDER = "reports"
MOST_PROGRESS = 64


class ReportKeeper:
    """The reports of this device that the fleet may not have yet.

    Args:
        keeping: where they lie.
        signer: with the device's key.

    Attributes:
        last_no: the highest number found or given.
    """

    def __init__(self, keeping: Keeping, signer: Signer) -> None:
        self._keeping, self._signer = keeping, signer
        self._terminal: dict[int, int] = {}
        self._progress: list[str] = []
        self.last_no = 0
        for name in keeping.names(FOLDER):
            match = REPORT_FILE.fullmatch(name)
            if match is None:
                continue
            self.last_no = max(self.last_no, int(match[1]))
            if match[2] == "progress":
                self._progress.append(name)
            elif (seq := self._seq(name)) is not None:
                self._terminal[seq] = int(match[1])

    @property
    def unsettled(self) -> tuple[int, ...]:
        """Assignments whose terminal report the fleet has not confirmed."""
        return tuple(sorted(self._terminal))

    def ended(self, seq: int) -> bool:
        """Whether there is a terminal report of an assignment."""
        return seq in self._terminal

    def keep(self, report: StateReport) -> None:
        """Seal a report and write it down durably; a terminal one of its assignment that is there stays.

        Raises:
            OSError: it cannot be written; ask again.
        """
        kind = "terminal" if report.terminal else "progress"
        name = f"{report.report_no:016d}.{kind}"
        self.last_no = max(self.last_no, report.report_no)
        if report.terminal and report.seq in self._terminal:
            return
        self._keeping.write(f"{FOLDER}/{name}", seal(report, REPORT_TYPE, self._signer))
        if report.terminal:
            self._terminal[report.seq] = report.report_no
            return
        self._progress.append(name)
        while len(self._progress) > MOST_PROGRESS:
            self._keeping.remove(f"{FOLDER}/{self._progress.pop(0)}")

    def settle(self, ends: Iterable[SettledEnd]) -> None:
        """The fleet has these, by the director's word; of an assignment whose report is another one it stays.

        Raises:
            OSError: they cannot be removed; ask again.
        """
        for end in ends:
            if self._terminal.get(end.seq) == end.report_no:
                self._keeping.remove(f"{FOLDER}/{end.report_no:016d}.terminal")
                del self._terminal[end.seq]

    def _seq(self, name: str) -> int | None:
        """Which assignment a terminal report is about; one that cannot be read stays and goes up as it is."""
        try:
            return seq_of(self._keeping.read(f"{FOLDER}/{name}") or b"")
        except OSError:
            return None


def seq_of(sealed: bytes) -> int | None:
    """The assignment that a sealed report is about; None where it cannot be read."""
    try:
        found = json.loads(read_envelope(sealed, REPORT_TYPE).payload)["seq"]
    except (WireError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None
