"""What perception opens at its start, and how often it may begin with a release that has yet to prove itself.

A release that makes the process die takes nobody else with it: the count is raised before it is loaded, so that the
third start in a row is the last, whoever else is alive or not.

Counting goes on after a release was accepted, until it has been in use for a day: probation takes minutes, and what
leaks or meets its first rare picture dies later. Then it takes five starts in a row, none of which stayed for ten
minutes or ended in order: a device that loses its power now and then is no reason. After the day the file is gone,
and a crash is not held against the release.
"""

import contextlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.protocol.release_values import Values
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import SlotState, read_slots

MAX_TRIAL_STARTS = 3
MAX_WATCHED_STARTS = 5
"""In a row, of a release that was accepted lately."""

STAYED_S = 600
"""Perception that has run for so long has not died of its start."""

WATCHED_S = 86_400
"""For so long in use starts are counted after a release was accepted."""

_COUNT = re.compile(r"([0-9a-f]{64}) (\d{1,9})(?: (\d{1,9}))?\n?")


@dataclass(frozen=True, slots=True)
class _Counted:
    """A file of counted starts.

    Attributes:
        used_s: in use since it was accepted; None while it is on trial.
    """

    release: str
    starts: int
    used_s: int | None


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
    """Decide what a slot opens, and count the start where that has yet to prove itself; durable when it returns.

    Args:
        root: `STATE/updates`.
        slot: its name.
    """
    places, state = Places(root), read_slots(root).of(slot)
    if state.active is None:
        return AtStart(None)
    if not places.files(state.active).is_dir():
        return _back(places, state, "it is not in the store any more")
    why = (
        _one_more_trial(places, slot, state.active) if state.trial else _one_more(places, slot, state.active)
    )
    if why is not None:
        return _back(places, state, why)
    return AtStart(state.active, places.files(state.active), state.values)


def _one_more_trial(places: Places, slot: str, release: str) -> str | None:
    """Count a start with a release on trial; why there may be none."""
    starts = trial_starts(places.root, slot, release)
    if starts >= MAX_TRIAL_STARTS:
        return f"perception began {starts} times with it and did not stay"
    try:
        _write(places, slot, _Counted(release, starts + 1, None))
    except OSError as error:
        return f"its start cannot be counted: {error.strerror}"
    return None


def _one_more(places: Places, slot: str, release: str) -> str | None:
    """Count a start with a release that was accepted, while it is watched; why there may be none."""
    watched = _watched(places, slot, release)
    if watched is None:
        return None
    if watched.starts >= MAX_WATCHED_STARTS:
        return f"accepted, it made perception begin {watched.starts} times in a row and did not stay"
    with contextlib.suppress(OSError):  # a full disk: what was accepted is not given up for that
        _write(places, slot, replace(watched, starts=watched.starts + 1))
    return None


def trial_starts(root: Path, slot: str, release: str) -> int:
    """How often perception began with this release since it was put on trial."""
    try:
        found = _read(Places(root), slot)
    except (OSError, ValueError):
        return MAX_TRIAL_STARTS  # it was counted once, and nobody knows how often
    is_trials = found is not None and found.release == release and found.used_s is None
    return found.starts if found is not None and is_trials else 0


def clear_starts(places: Places, slot: str) -> None:
    """A trial begins: no start has been made with it. What is watched stays so until the trial's first start."""
    with contextlib.suppress(ValueError):
        found = _read(places, slot)
        if found is None or found.used_s is not None:
            return
    _end_count(places, slot)


def watch_starts(places: Places, slot: str, release: str) -> None:
    """A release is accepted: its starts are counted for `WATCHED_S` in use.

    Raises:
        OSError: it cannot be written down.
    """
    _write(places, slot, _Counted(release, 0, 0))


def stayed(root: Path, slot: str, release: str, seconds: float) -> None:
    """A release ran for so long, or ended in order: the starts so far are not held against it.

    Of one on trial, and of one that is no longer watched, nothing is written.

    Args:
        root: `STATE/updates`.
        slot: its name.
        release: that this process runs.
        seconds: in use, since this was said last.

    Raises:
        OSError: it cannot be written; the starts still count.
    """
    places, state = Places(root), read_slots(root).of(slot)
    watched = None if state.trial or state.active != release else _watched(places, slot, release)
    if watched is None:
        return
    used_s = (watched.used_s or 0) + int(seconds)
    if used_s >= WATCHED_S:
        _end_count(places, slot)
    elif (watched.starts, watched.used_s) != (0, used_s):
        _write(places, slot, _Counted(release, 0, used_s))


def _end_count(places: Places, slot: str) -> None:
    (places.trial_starts / slot).unlink(missing_ok=True)


def _watched(places: Places, slot: str, release: str) -> _Counted | None:
    """The count of a release that was accepted lately; None where it is not watched, or the file is damaged."""
    try:
        found = _read(places, slot)
    except (OSError, ValueError):
        return None
    return found if found is not None and found.release == release and found.used_s is not None else None


def _read(places: Places, slot: str) -> _Counted | None:
    """What was counted; None where nothing was.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    try:
        text = (places.trial_starts / slot).read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    found = _COUNT.fullmatch(text)
    if found is None:
        raise ValueError("no count of starts")
    return _Counted(found[1], int(found[2]), None if found[3] is None else int(found[3]))


def _write(places: Places, slot: str, counted: _Counted) -> None:
    places.trial_starts.mkdir(mode=0o700, exist_ok=True)
    used = "" if counted.used_s is None else f" {counted.used_s}"
    write_file(
        places.trial_starts / slot, f"{counted.release} {counted.starts}{used}\n".encode("ascii"), 0o600
    )


def _back(places: Places, state: SlotState, why: str) -> AtStart:
    good = state.last_good
    if good is None or good == state.active or not places.files(good).is_dir():
        return AtStart(None, gave_up=state.active, why=why)
    return AtStart(good, places.files(good), state.last_good_values, gave_up=state.active, why=why)
