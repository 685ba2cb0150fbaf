"""Which package a model opens at a start: the assigned release, the one before it, or the configured one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.protocol.swap import GivenUp
from edge_runtime.protocol.update import CONFIGURATION_SLOT, UpdateCode
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import read_slots
from edge_runtime.updates.store.starting import begin_start

_SLOT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Opening:
    """A package that may be opened.

    Attributes:
        release: SHA-256 of its bundle; None for the configured package.
        files: folder of the release's files; None with `release`.
        given_up: the release that should have been opened in its place.
    """

    release: str | None = None
    files: Path | None = None
    given_up: GivenUp | None = None


def is_slot(name: str) -> bool:
    """Whether releases can be assigned to a model of this name: those of the fleet are in lower case."""
    return name != CONFIGURATION_SLOT and _SLOT.fullmatch(name) is not None


def openings(updates: Path | None, name: str) -> Iterator[Opening]:
    """What is to be tried for a model, the first that opens counts; a start with a release on trial is counted.

    Args:
        updates: folder of releases; None where the device takes none.
        name: of the model.

    Yields:
        The configured package last.
    """
    if updates is None or not is_slot(name):
        yield Opening()
        return
    chosen = begin_start(updates, name)
    given_up = None
    if chosen.gave_up is not None:
        given_up = GivenUp(release=chosen.gave_up, code=UpdateCode.CRASH_LOOP, text=chosen.why[:300])
    if chosen.release is not None:
        yield Opening(chosen.release, chosen.files, given_up)
        good = read_slots(updates).of(name).last_good
        if good is not None and good != chosen.release and Places(updates).files(good).is_dir():
            yield Opening(good, Places(updates).files(good), given_up)
    yield Opening(given_up=given_up)
