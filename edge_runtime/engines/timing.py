"""Timing caches: what TensorRT measured on this GPU, so that the next build does not measure it again.

A cache is only good for the TensorRT and the GPU that wrote it. It is an aid: one that cannot be read counts as
none, and the build measures anew.
"""

import contextlib
import hashlib
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from edge_runtime.engines.errors import StoreBusy, StoreUnusable
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.recipe import Sha256, canonical_json
from edge_runtime.engines.records import Record, names_in, read_whole, remove_whatever, size_of, write_whole

TIMING_FORMAT: Final = 1
MAX_TIMING_BYTES: Final = 64 << 20
MOST_CACHES: Final = 3
_MAX_HEADER: Final = 4096


class _Header(Record):
    format: int
    tensorrt: str
    gpu: str
    sm: str
    sha256: Sha256


@dataclass(frozen=True, slots=True)
class TimingCaches:
    """The folder of timing caches.

    Args:
        folder: of the store.
    """

    folder: StoreFolder

    def read(self, machine: MachineFacts) -> bytes | None:
        """The cache of a machine; None where there is none that is whole and belongs to it."""
        path = self.folder.timing / _name(machine)
        try:
            data = read_whole(path, MAX_TIMING_BYTES + _MAX_HEADER)
        except OSError:
            return None
        head, _, cache = data.partition(b"\n")
        return cache if head == _head(machine, cache) else None

    def save(self, machine: MachineFacts, cache: bytes) -> bool:
        """Keep a cache; it is an aid, so a full disk is no error.

        Returns:
            Whether it was kept; one that is empty or too large is not.
        """
        if not 0 < len(cache) <= MAX_TIMING_BYTES:
            return False
        with contextlib.suppress(StoreUnusable, StoreBusy), self.folder.owned(), self.folder.explained():
            self._bound(_name(machine))
            write_whole(self.folder.timing / _name(machine), _head(machine, cache) + b"\n" + cache)
            return True
        return False

    def bytes(self) -> int:
        """What all caches take."""
        try:
            return sum(size_of(self.folder.timing / name) for name in names_in(self.folder.timing))
        except OSError:
            return 0

    def _bound(self, mine: str) -> None:
        others = [name for name in names_in(self.folder.timing) if name != mine]
        others.sort(key=lambda name: (self._readable(name), name))
        for name in others[: max(0, len(others) - (MOST_CACHES - 1))]:
            remove_whatever(self.folder.timing / name)

    def _readable(self, name: str) -> bool:
        try:
            data = read_whole(self.folder.timing / name, MAX_TIMING_BYTES + _MAX_HEADER)
            _Header.model_validate_json(data.partition(b"\n")[0])
        except (OSError, ValidationError):
            return False
        return True


def _head(machine: MachineFacts, cache: bytes) -> bytes:
    header = _Header(
        format=TIMING_FORMAT,
        tensorrt=machine.tensorrt,
        gpu=machine.gpu,
        sm=machine.sm,
        sha256=hashlib.sha256(cache).hexdigest(),
    )
    return canonical_json(header.model_dump(mode="json"))


def _name(machine: MachineFacts) -> str:
    facts = canonical_json([machine.tensorrt, machine.gpu, machine.sm])
    return f"{hashlib.sha256(facts).hexdigest()[:32]}.cache"
