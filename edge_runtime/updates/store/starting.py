"""What perception opens at its start, and how often it may begin with a release on trial.

A release that makes the process die takes nobody else with it: the count is raised before it is loaded, so that the
third start in a row is the last, whoever else is alive or not.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import SlotState, Values, read_slots

MAX_TRIAL_STARTS = 3
_COUNT = re.compile(r"([0-9a-f]{64}) (\d{1,9})\n?")


@dataclass(frozen=True, slots=True)
class AtStart:
    """What a slot opens.

    Attributes:
        release: bundle's SHA-256; None is what the configuration names.
        files: the release's folder of files; None with `release`.
        values: per-device values of a configuration.
        gave_up: the release that should have been opened; None where it was.
        why: a sentence about that.
    """

    release: str | None
    files: Path | None = None
    values: Values | None = None
    gave_up: str | None = None
    why: str = ""


def begin_start(root: Path, slot: str) -> AtStart:
    """Decide what a slot opens, and count the start where that is on trial; durable when it returns.

    Args:
        root: `STATE/updates`.
        slot: its name.
    """
    places, state = Places(root), read_slots(root).of(slot)
    if state.active is None:
        return AtStart(None)
    if not places.files(state.active).is_dir():
        return _back(places, state, "it is not in the store any more")
    if state.trial:
        starts = trial_starts(root, slot, state.active)
        if starts >= MAX_TRIAL_STARTS:
            return _back(places, state, f"perception began {starts} times with it and did not stay")
        try:
            _write(places, slot, state.active, starts + 1)
        except OSError as error:
            return _back(places, state, f"its start cannot be counted: {error.strerror}")
    return AtStart(state.active, places.files(state.active), state.values)


def trial_starts(root: Path, slot: str, release: str) -> int:
    """How often perception began with this release since it was put on trial."""
    try:
        found = _COUNT.fullmatch((Places(root).trial_starts / slot).read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except (OSError, UnicodeDecodeError):
        return MAX_TRIAL_STARTS  # it was counted once, and nobody knows how often
    if found is None:
        return MAX_TRIAL_STARTS
    return int(found[2]) if found[1] == release else 0


def clear_starts(places: Places, slot: str) -> None:
    """A trial begins: no start has been made with it."""
    (places.trial_starts / slot).unlink(missing_ok=True)


def _write(places: Places, slot: str, release: str, starts: int) -> None:
    places.trial_starts.mkdir(mode=0o700, exist_ok=True)
    write_file(places.trial_starts / slot, f"{release} {starts}\n".encode("ascii"), 0o600)


def _back(places: Places, state: SlotState, why: str) -> AtStart:
    good = state.last_good
    if good is None or good == state.active or not places.files(good).is_dir():
        return AtStart(None, gave_up=state.active, why=why)
    return AtStart(good, places.files(good), state.last_good_values, gave_up=state.active, why=why)
