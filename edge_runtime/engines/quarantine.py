"""Where engines go that must not be loaded: with the reason, for somebody to look at, and never for ever."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from edge_runtime.clock import Clock
from edge_runtime.durable import sync_directory
from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.recipe import Sha256
from edge_runtime.engines.records import Record, names_in, read_record, remove_whatever, size_of, write_record

MOST_CASES: Final = 8
MOST_BYTES: Final = 512 << 20
"""Bounds of the quarantine; the oldest go first, and an engine that is larger than all of it is not kept."""

_REASON, _ENGINE, _MANIFEST = "reason.json", "engine", "manifest.json"


class Reason(Record):
    """Why an engine was taken out of use.

    Attributes:
        key: that it was kept under.
        reason: a sentence.
        at: the wall clock then; a label.
        clock_synced: whether that clock was synchronised.
    """

    key: Sha256
    reason: Annotated[str, Field(max_length=2000)]
    at: Annotated[str, Field(max_length=64)]
    clock_synced: bool


@dataclass(frozen=True, slots=True)
class Case:
    """What lies in quarantine.

    Attributes:
        path: its folder.
        reason: None where the record of it cannot be read.
        bytes: of the engine and its manifest, as far as they were kept.
    """

    path: Path
    reason: Reason | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The folder of engines that were taken out of use.

    Args:
        folder: of the store.
        clock: labels each case.
        most_cases: kept at most.
        most_bytes: kept at most.
    """

    folder: StoreFolder
    clock: Clock
    most_cases: int = MOST_CASES
    most_bytes: int = MOST_BYTES

    def take(self, key: str, reason: str) -> bool:
        """Move the files of a key here; the caller holds the store's lock.

        The manifest goes first: from then on the engine is not found any more, whatever happens next. Where they
        cannot be kept, they are removed.

        Returns:
            Whether they were kept.

        Raises:
            OSError: they can be neither moved nor removed.
        """
        kept = False
        with contextlib.suppress(OSError):
            self._bound(self.most_cases - 1)
            place = self._next()
            place.mkdir(mode=0o700)
            write_record(place / _REASON, self._reason(key, reason))
            for path, name in ((self.folder.manifest(key), _MANIFEST), (self.folder.engine(key), _ENGINE)):
                with contextlib.suppress(FileNotFoundError):
                    path.rename(place / name)
            sync_directory(place)
            kept = True
        remove_whatever(self.folder.manifest(key))
        remove_whatever(self.folder.engine(key))
        sync_directory(self.folder.path)
        with contextlib.suppress(OSError):
            self._bound(self.most_cases)
        return kept

    def cases(self) -> tuple[Case, ...]:
        """What lies here, oldest first."""
        found = []
        for name in self._names():
            path = self.folder.quarantine / name
            try:
                reason = read_record(Reason, path / _REASON)
            except (ValueError, OSError):
                reason = None
            found.append(Case(path, reason, size_of(path / _ENGINE) + size_of(path / _MANIFEST)))
        return tuple(found)

    def empty(self) -> int:
        """Remove all of it; the caller holds the store's lock.

        Returns:
            How many cases there were.

        Raises:
            OSError: one cannot be removed.
        """
        names = self._names()
        for name in names:
            remove_whatever(self.folder.quarantine / name)
        return len(names)

    def _bound(self, most_cases: int) -> None:
        cases = list(self.cases())
        while len(cases) > max(0, most_cases):
            remove_whatever(cases.pop(0).path)
        while sum(case.bytes for case in cases) > self.most_bytes:
            if len(cases) == 1:  # the reason stays, whatever was so large does not
                for name in (_ENGINE, _MANIFEST):
                    remove_whatever(cases[0].path / name)
                return
            remove_whatever(cases.pop(0).path)

    def _next(self) -> Path:
        numbers = [int(head) for name in self._names() if (head := name.partition("-")[0]).isdecimal()]
        return self.folder.quarantine / f"{max(numbers, default=0) + 1:08d}"

    def _names(self) -> list[str]:
        try:
            return names_in(self.folder.quarantine)
        except OSError:
            return []

    def _reason(self, key: str, reason: str) -> Reason:
        wall = self.clock.wall()
        shown = "".join(sign if sign.isprintable() else " " for sign in reason)[:2000]
        return Reason(key=key, reason=shown, at=wall.isoformat(), clock_synced=wall.synced)
