"""What the uplink and updates leave for each other on the disk, handled by a thread that may wait for the disk.

```
STATE/updates/desired                        the newest desired state as it arrived; written here, read by updates
STATE/updates/reports/NUMBER.terminal        sealed reports; written by updates, which deletes them when settled
STATE/updates/reports/NUMBER.progress        the same; deleted here once the broker has them
```

NUMBER is the report's, 16 digits. Nothing in a report is read here: it is sealed, and the fleet server's to judge.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.protocol.update import MAX_ENVELOPE_BYTES
from edge_runtime.protocol.update_wire import REPORT_FILE
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES
from edge_runtime.telemetry import get_logger

DESIRED, REPORTS = "desired", "reports"
LOOK_S = 0.5
"""Between two looks into the folder: a report waits no longer for its way up."""

MOST_HELD = 64
"""Reports of each kind that are read at once; the others wait on the disk."""

_DIGITS = 16
_LEAST_ENVELOPE = 2


@dataclass(frozen=True, slots=True)
class SealedReport:
    """One report as it lies on the disk.

    Attributes:
        number: of the report; grows.
        terminal: the last one of an assignment, kept until the server settled it.
        sealed: the envelope.
    """

    number: int
    terminal: bool
    sealed: bytes


@dataclass(frozen=True, slots=True)
class FoundReports:
    """What lies in the folder now; told on a change.

    Attributes:
        reports: that were read, at most `MOST_HELD` of each kind.
        terminal: numbers of all terminal ones, the oldest first.
    """

    reports: tuple[SealedReport, ...]
    terminal: tuple[int, ...]


class UpdateFiles:
    """The thread between the uplink and the folder of updates. Every method returns at once.

    Args:
        folder: `STATE/updates`; made by whoever comes first.
        tell: called with `FoundReports`, from the thread.
        look_s: between two looks.

    Attributes:
        trouble: a sentence where something could not be written or deleted, else None.
    """

    def __init__(self, folder: Path, tell: Callable[[FoundReports], object], look_s: float = LOOK_S) -> None:
        self._folder, self._tell, self._look_s = folder, tell, look_s
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._stopping = False
        self._desired: bytes | None = None
        self._written: bytes | None = None
        self._to_delete: set[int] = set()
        self._wanted: tuple[int, ...] = ()
        self._known: dict[str, SealedReport] = {}
        self._rubbish: set[str] = set()
        self._terminal: tuple[int, ...] = ()
        self.trouble: str | None = None
        threading.Thread(target=self._run, name="uplink-updates", daemon=True).start()

    def keep_desired(self, payload: bytes) -> None:
        """Write down a desired state; a newer one takes the place of one that still waits."""
        with self._lock:
            self._desired = payload
        self._woken.set()

    def broker_has(self, numbers: Sequence[int]) -> None:
        """Delete reports of progress."""
        with self._lock:
            self._to_delete.update(numbers)
        self._woken.set()

    def hold(self, numbers: Sequence[int]) -> None:
        """Read these terminal reports before all others; those that are never settled stand in no way then."""
        with self._lock:
            if self._wanted == tuple(numbers):
                return
            self._wanted = tuple(numbers)
        self._woken.set()

    def stop(self) -> None:
        """End after what is under way."""
        self._stopping = True
        self._woken.set()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - a defect here may cost reports, never the way of events
                get_logger().error("the files of updates cannot be handled", exc_info=error)
            self._woken.wait(self._look_s)
            self._woken.clear()

    def _turn(self) -> None:
        with self._lock:
            desired, gone = self._desired, set(self._to_delete)
        trouble = None
        if desired is not None:
            trouble = self._write_desired(desired)
        trouble = self._delete(gone) or trouble
        self.trouble = trouble
        self._look()

    def _write_desired(self, payload: bytes) -> str | None:
        """Write, unless the file says so already: the broker sends it again in every session."""
        path = self._folder / DESIRED
        try:
            if self._written is None:
                self._written = _content(path, MAX_PAYLOAD_BYTES)
            if payload != self._written:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_file(path, payload, 0o600)
                self._written = payload
        except OSError as error:
            return f"the desired state cannot be written down ({error.strerror}); updates do not see it"
        with self._lock:
            if self._desired is payload:
                self._desired = None
        return None

    def _delete(self, numbers: set[int]) -> str | None:
        trouble = None
        for number in numbers:
            path = self._folder / REPORTS / f"{number:016d}.progress"
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                trouble = f"reports of updates cannot be deleted ({error.strerror}); they are sent again"
        with self._lock:
            self._to_delete -= numbers
        return trouble

    def _look(self) -> None:
        terminal, progress = self._names()
        found: dict[str, SealedReport] = {}
        for name in [*self._first(terminal), *progress[:MOST_HELD]]:
            report = self._known.get(name) or self._read(name)
            if report is not None:
                found[name] = report
        numbers = tuple(int(name[:_DIGITS]) for name in terminal)
        if found.keys() != self._known.keys() or numbers != self._terminal:
            self._known, self._terminal = found, numbers
            self._tell(FoundReports(tuple(found.values()), numbers))

    def _names(self) -> tuple[list[str], list[str]]:
        """Of terminal reports and of those of progress, the oldest first."""
        kinds: dict[str, list[str]] = {"terminal": [], "progress": []}
        with contextlib.suppress(OSError):
            for name in sorted(path.name for path in (self._folder / REPORTS).iterdir()):
                match = REPORT_FILE.fullmatch(name)
                if match is not None and name not in self._rubbish:
                    kinds[match[2]].append(name)
        return kinds["terminal"], kinds["progress"]

    def _first(self, terminal: list[str]) -> list[str]:
        """Those that are read: the ones that are asked for, then the oldest; in the order of their numbers."""
        with self._lock:
            wanted = set(self._wanted)
        chosen = sorted(terminal, key=lambda name: int(name[:_DIGITS]) not in wanted)[:MOST_HELD]
        return sorted(chosen)

    def _read(self, name: str) -> SealedReport | None:
        sealed = None
        with contextlib.suppress(OSError):  # settled or damaged meanwhile: there is nothing to send
            sealed = _content(self._folder / REPORTS / name, MAX_ENVELOPE_BYTES)
        if sealed is None:
            return None
        if not _LEAST_ENVELOPE <= len(sealed) <= MAX_ENVELOPE_BYTES:
            self._rubbish.add(name)
            return None
        return SealedReport(int(name[:_DIGITS]), name.endswith(".terminal"), sealed)


def _content(path: Path, most: int) -> bytes | None:
    """The bytes of a file, at most one more than `most`; None where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except FileNotFoundError:
        return None
