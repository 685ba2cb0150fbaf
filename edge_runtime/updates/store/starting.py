"""What perception opens at its start, and how often it may begin with a release that has yet to prove itself.

A release that makes the process die takes nobody else with it: the count is raised before it is loaded, so that the
third start in a row is the last, whoever else is alive or not.

Counting goes on after a release was accepted, until it has been in use for a day: probation takes minutes, and what
leaks or meets its first rare picture dies later. Then it takes five starts in a row, none of which stayed for ten
minutes or ended in order, and each of which is known to have crashed: the next one came in the same boot. A start
that ended with the whole device says nothing about the release. After the day the file is gone, and a crash is not
held against it. A later trial has a file of its own, and what it goes back to is watched on.
"""

import contextlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from edge_runtime.clock import boot_id
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

_TRIAL = re.compile(r"([0-9a-f]{64}) (\d{1,9})\n?")
_WATCHED = re.compile(r"([0-9a-f]{64}) (\d{1,9}) (\d{1,9})(?: ([!-~]{1,64}))?\n?")
_GIVEN_UP = MAX_WATCHED_STARTS + 1
"""Written down, so that a release which was given up stays so whatever boot it is."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """The starts of a release that was accepted lately.

    Attributes:
        starts: in a row that have not stayed, without those that ended with the device; the last may still run.
        used_s: in use since it was accepted.
        boot: of the last start; None before the first one.
    """

    release: str
    starts: int = 0
    used_s: int = 0
    boot: str | None = None

    def crashes(self, boot: str) -> int:
        """How many starts in a row crashed, as far as a start in this boot can know."""
        was_cut = self.boot not in (None, boot) and 0 < self.starts < _GIVEN_UP
        return self.starts - was_cut


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


def begin_start(root: Path, slot: str, *, boot: str | None = None) -> AtStart:
    """Decide what a slot opens, and count the start where that has yet to prove itself; durable when it returns.

    Args:
        root: `STATE/updates`.
        slot: its name.
        boot: in which this start is; None asks the kernel.
    """
    places, state = Places(root), read_slots(root).of(slot)
    boot = (boot or boot_id())[:64]
    if state.active is None:
        return AtStart(None)
    if not places.files(state.active).is_dir():
        return _back(places, slot, state, boot, "it is not in the store any more")
    if state.trial:
        why = _one_more_trial(places, slot, state.active)
    else:
        why = _one_more(places, slot, state.active, boot)
    if why is not None:
        return _back(places, slot, state, boot, why)
    return AtStart(state.active, places.files(state.active), state.values)


def _one_more_trial(places: Places, slot: str, release: str) -> str | None:
    """Count a start with a release on trial; why there may be none."""
    starts = trial_starts(places.root, slot, release)
    if starts >= MAX_TRIAL_STARTS:
        return f"perception began {starts} times with it and did not stay"
    try:
        _write(places.trial_starts, slot, f"{release} {starts + 1}")
    except OSError as error:
        return f"its start cannot be counted: {error.strerror}"
    return None


def _one_more(places: Places, slot: str, release: str, boot: str) -> str | None:
    """Count a start with a release that was accepted, while it is watched; why there may be none."""
    watched = _watched(places, slot, release)
    if watched is None:
        return None
    crashes = min(watched.crashes(boot), MAX_WATCHED_STARTS)
    counted = replace(watched, starts=crashes + 1, boot=boot)
    if counted != watched:
        with contextlib.suppress(OSError):  # a full disk: what was accepted is not given up for that
            _write_watched(places, slot, counted)
    if crashes < MAX_WATCHED_STARTS:
        return None
    return f"accepted, it made perception begin {crashes} times in a row and did not stay"


def trial_starts(root: Path, slot: str, release: str) -> int:
    """How often perception began with this release since it was put on trial."""
    try:
        found = _read(Places(root).trial_starts / slot, _TRIAL)
    except (OSError, ValueError):
        return MAX_TRIAL_STARTS  # it was counted once, and nobody knows how often
    return int(found[2]) if found is not None and found[1] == release else 0


def clear_starts(places: Places, slot: str) -> None:
    """A trial begins: no start has been made with it."""
    (places.trial_starts / slot).unlink(missing_ok=True)


def watch_starts(places: Places, slot: str, release: str) -> None:
    """A release is accepted: its starts are counted for `WATCHED_S` in use.

    Raises:
        OSError: it cannot be written down.
    """
    _write_watched(places, slot, _Watched(release))
    clear_starts(places, slot)


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
    on_trial = state.active if state.trial else None
    accepted = state.last_good if state.trial else state.active
    watched = _watched(places, slot, release) if on_trial != release == accepted else None
    if watched is None:
        return
    used_s = watched.used_s + int(seconds)
    if used_s >= WATCHED_S:
        (places.watched_starts / slot).unlink(missing_ok=True)
    elif (watched.starts, watched.used_s) != (0, used_s):
        _write_watched(places, slot, _Watched(release, 0, used_s, watched.boot))


def _watched(places: Places, slot: str, release: str) -> _Watched | None:
    """The count of a release that was accepted lately; None where it is not watched, or the file is damaged."""
    try:
        found = _read(places.watched_starts / slot, _WATCHED)
    except (OSError, ValueError):
        return None
    if found is None or found[1] != release:
        return None
    return _Watched(release, int(found[2]), int(found[3]), found[4])


def _read(path: Path, form: re.Pattern[str]) -> re.Match[str] | None:
    """What was counted; None where nothing was.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    found = form.fullmatch(text)
    if found is None:
        raise ValueError("no count of starts")
    return found


def _write_watched(places: Places, slot: str, watched: _Watched) -> None:
    boot = "" if watched.boot is None else f" {watched.boot}"
    _write(places.watched_starts, slot, f"{watched.release} {watched.starts} {watched.used_s}{boot}")


def _write(folder: Path, slot: str, line: str) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    write_file(folder / slot, f"{line}\n".encode("ascii"), 0o600)


def _back(places: Places, slot: str, state: SlotState, boot: str, why: str) -> AtStart:
    """What is opened in place of the active release; one that was accepted only lately is counted there as well."""
    tried = ((state.last_good, state.last_good_values), (state.earlier, state.earlier_values))
    for good, values in tried:
        if good is None:
            break
        if good == state.active or not places.files(good).is_dir():
            continue
        if _one_more(places, slot, good, boot) is None:
            return AtStart(good, places.files(good), values, gave_up=state.active, why=why)
    return AtStart(None, gave_up=state.active, why=why)
