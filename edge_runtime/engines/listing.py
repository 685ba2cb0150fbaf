"""What lies in the store, readable or not, and in which order it was used.

The order is kept as a list of keys: file times follow the wall clock, which steps by decades on a device without a
battery.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from edge_runtime.engines.errors import EngineDamaged, EngineNewer
from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.holds import Hold
from edge_runtime.engines.manifest import EngineManifest
from edge_runtime.engines.recipe import Sha256
from edge_runtime.engines.records import Record, names_in, read_record, size_of, write_record
from edge_runtime.engines.verify import read_manifest

_MANIFEST_NAME = re.compile(r"([0-9a-f]{64})\.json")
_MOST_RECENT: Final = 512


@dataclass(frozen=True, slots=True)
class Entry:
    """One engine of the store.

    Attributes:
        key: its name.
        bytes: of the engine and its manifest.
        used: its place in the order of use, the largest last; 0 for one that the order does not know.
        manifest: None where it cannot be read.
        problem: why it cannot be used as it lies there; None where nothing is known against it. The engine's own
            bytes are not read for this.
        newer: whether a newer release wrote it.
        holds: who needs it.
    """

    key: str
    bytes: int
    used: int
    manifest: EngineManifest | None
    problem: str | None
    newer: bool
    holds: tuple[Hold, ...]


class _Recent(Record):
    keys: Annotated[tuple[Sha256, ...], Field(max_length=_MOST_RECENT)]


@dataclass(frozen=True, slots=True)
class RecentKeys:
    """The order in which keys were used.

    Args:
        folder: of the store.
    """

    folder: StoreFolder

    def read(self) -> tuple[str, ...]:
        """Keys, the one that was used last at the end; none where the record is damaged."""
        try:
            record = read_record(_Recent, self.folder.recent)
        except (ValueError, OSError):
            return ()
        return () if record is None else record.keys

    def touch_owned(self, key: str) -> None:
        """A key is used now; the caller holds the store's lock.

        Raises:
            OSError: it cannot be written down.
        """
        before = self.read()
        if before[-1:] == (key,):
            return
        after = (*(one for one in before if one != key), key)
        write_record(self.folder.recent, _Recent(keys=after[-_MOST_RECENT:]))


def stored_keys(folder: StoreFolder) -> tuple[str, ...]:
    """Keys that have a manifest, of whatever kind.

    Raises:
        StoreUnusable: the directory cannot be listed.
    """
    with folder.explained():
        return tuple(match[1] for name in names_in(folder.path) if (match := _MANIFEST_NAME.fullmatch(name)))


def entry_of(folder: StoreFolder, key: str, recent: tuple[str, ...], holds: tuple[Hold, ...]) -> Entry | None:
    """What is known of a key; None where there is nothing, or it has just gone.

    Raises:
        StoreUnusable: the directory or the system does not let it be read.
    """
    manifest, problem, newer = None, None, False
    try:
        manifest = read_manifest(folder, key)
        if manifest is None:
            return None
        problem = _engine_problem(folder, key, manifest)
    except EngineNewer as error:
        problem, newer = str(error), True
    except EngineDamaged as error:
        problem = str(error)
    return Entry(
        key=key,
        bytes=size_of(folder.engine(key)) + size_of(folder.manifest(key)),
        used=recent.index(key) + 1 if key in recent else 0,
        manifest=manifest,
        problem=problem,
        newer=newer,
        holds=tuple(hold for hold in holds if hold.key == key),
    )


def entries_in(folder: StoreFolder, recent: tuple[str, ...], holds: tuple[Hold, ...]) -> list[Entry]:
    """Every engine, readable or not, the one that was unused for longest first.

    Raises:
        StoreUnusable: the directory or the system does not let them be read.
    """
    found = (entry_of(folder, key, recent, holds) for key in stored_keys(folder))
    return sorted((entry for entry in found if entry is not None), key=lambda entry: (entry.used, entry.key))


def _engine_problem(folder: StoreFolder, key: str, manifest: EngineManifest) -> str | None:
    size = size_of(folder.engine(key))
    if size == manifest.engine_bytes:
        return None
    return f"{folder.engine(key).name} has {size} bytes, its manifest says {manifest.engine_bytes}"
