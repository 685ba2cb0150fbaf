"""The memory of what went wrong, across restarts: an engine is built again once, and not at every start."""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.engines.errors import BuildRefused, StoreBusy, StoreUnusable
from edge_runtime.engines.folder import StoreFolder, require_key
from edge_runtime.engines.records import names_in, read_record, remove_whatever, write_record
from edge_runtime.engines.strikes import (
    DEADLY,
    EXPIRY_S,
    MOST_DEATHS,
    FailureRecord,
    Kind,
    Now,
    Strike,
    aged,
    refusal_of,
    with_room,
    with_strike,
    without_last,
)

MOST_KEYS: Final = 256
_REANCHOR_NS: Final = 3600 * NS_PER_S
_RECORD: Final = re.compile(r"([0-9a-f]{64})\.json")


@dataclass
class Failures:
    """The memory of failures.

    Args:
        folder: of the store.
        clock: of the device.
        has_room: whether the store would keep the engine of a key that has so many bytes.
    """

    folder: StoreFolder
    clock: Clock
    has_room: Callable[[str, int], bool]
    _unwritten: dict[str, tuple[Strike, ...]] = field(default_factory=dict)

    def of(self, key: str) -> tuple[Strike, ...]:
        """What went wrong with a key and still counts, oldest first; a damaged record counts as none."""
        try:
            record = read_record(FailureRecord, self._path(key))
        except (ValueError, OSError):
            record = None
        written = () if record is None else record.strikes
        strikes = self._unwritten.get(key, written)
        now = self._now()
        return tuple(
            one for one in (aged(strike, now) for strike in strikes) if one.age_ns < EXPIRY_S * NS_PER_S
        )

    def known(self) -> tuple[str, ...]:
        """Keys that something is remembered of."""
        try:
            names = names_in(self.folder.failures)
        except OSError:
            names = []
        written = {found[1] for name in names if (found := _RECORD.fullmatch(name))}
        return tuple(sorted(written | set(self._unwritten)))

    def failing_keys(self) -> tuple[str, ...]:
        """Keys of which something that went wrong is remembered."""
        return tuple(key for key in self.known() if any(one.kind is not Kind.LOADING for one in self.of(key)))

    def refusal(self, key: str) -> str | None:
        """Why the engine of a key is not built now, a sentence without its end; None where it may be."""
        return refusal_of(with_room(self.of(key), lambda nbytes: self.has_room(key, nbytes)))

    def begin(self, key: str) -> None:
        """Write down that a build begins, before it does, so that one that kills the device is remembered.

        `EngineStore.add` and `note` end it; `called_off` where it was ended on purpose.

        Raises:
            BuildRefused: it has failed before.
            StoreUnusable: it cannot be written down: then it is not to be built either.
            StoreBusy: another process holds the store.
        """
        self.refresh()
        why = self.refusal(key)
        if why is not None:
            raise BuildRefused(
                f"engine {key[:12]} is not built: {why}; `edge-runtime engine build` tries at once"
            )
        with self.folder.owned(), self.folder.explained():
            self._write(
                key, (*self.of(key), self._strike(Kind.UNFINISHED, "the build did not come to its end"))
            )

    def note(self, key: str, reason: str, kind: Kind = Kind.FAILED, nbytes: int = 0) -> None:
        """Remember that something went wrong; where it cannot be written, this process remembers it.

        Args:
            key: of the recipe.
            reason: a sentence.
            kind: a failed build takes the place of the unfinished one.
            nbytes: of the engine where room for it is all that was missing.
        """
        strike = self._strike(kind, reason, nbytes)
        self._change(key, lambda strikes: with_strike(strikes, strike))

    def note_owned(self, key: str, reason: str, kind: Kind) -> None:
        """The same as `note`, for a caller that holds the store's lock."""
        self._keep_owned(key, with_strike(self.of(key), self._strike(kind, reason)))

    def built_owned(self, key: str) -> None:
        """A build gave an engine: only what was taken out of use still counts. The caller holds the lock."""
        strikes = self.of(key)
        left = tuple(strike for strike in strikes if strike.kind is Kind.QUARANTINED)
        if left != strikes:
            self._keep_owned(key, left)

    def called_off(self, key: str) -> None:
        """A build was ended on purpose, by a stop of the process or by a person: it counts as if it never began."""
        self._change(key, lambda strikes: without_last(strikes, Kind.UNFINISHED))

    def deaths(self, key: str) -> int:
        """How many processes ended while they loaded the engine of a key."""
        return sum(strike.kind is Kind.LOADING for strike in self.of(key))

    def most_deaths(self, key: str) -> int:
        """How many processes may end while they load the engine of a key."""
        again = any(one.kind is Kind.QUARANTINED and DEADLY in one.reason for one in self.of(key))
        return 1 if again else MOST_DEATHS

    def loaded(self, key: str) -> None:
        """The engine was loaded, or refused: this process lives."""
        self._change(key, lambda strikes: without_last(strikes, Kind.LOADING))

    def forget(self, key: str | None = None) -> None:
        """Forget what went wrong with a key, or with all; a person asked for another try.

        Raises:
            StoreUnusable: the record cannot be removed.
            StoreBusy: another process holds the store.
        """
        with self.folder.owned(), self.folder.explained():
            for one in self.known() if key is None else (key,):
                self._unwritten.pop(one, None)
                remove_whatever(self._path(one))

    def room_was_made_owned(self) -> None:
        """What had no room may be built again. The caller holds the store's lock."""
        for key in self.known():
            strikes = self.of(key)
            left = tuple(strike for strike in strikes if strike.kind is not Kind.NO_ROOM)
            if left != strikes:
                self._keep_owned(key, left)

    def refresh(self) -> None:
        """Write down how old things have become, so that the age survives a reboot; never fails."""
        outdated = [key for key in self.known() if self._outdated(key, self.of(key))]
        if outdated:
            with contextlib.suppress(StoreUnusable, StoreBusy), self.folder.owned(wait_s=0):
                for key in outdated:
                    with contextlib.suppress(OSError):
                        self._write(key, self.of(key))

    def _outdated(self, key: str, strikes: tuple[Strike, ...]) -> bool:
        try:
            record = read_record(FailureRecord, self._path(key))
        except (ValueError, OSError):
            return True
        if record is None or len(record.strikes) != len(strikes):
            return True
        return any(
            old.boot_id != new.boot_id or new.age_ns - old.age_ns >= _REANCHOR_NS
            for old, new in zip(record.strikes, strikes, strict=True)
        )

    def _change(self, key: str, change: Callable[[tuple[Strike, ...]], tuple[Strike, ...]]) -> None:
        try:
            with self.folder.owned():
                self._keep_owned(key, change(self.of(key)))
        except (StoreUnusable, StoreBusy):
            self._unwritten[key] = change(self.of(key))

    def _keep_owned(self, key: str, strikes: tuple[Strike, ...]) -> None:
        try:
            self._write(key, strikes)
        except OSError:
            self._unwritten[key] = strikes

    def _write(self, key: str, strikes: tuple[Strike, ...]) -> None:
        path = self._path(key)
        if not strikes:
            remove_whatever(path)
        else:
            write_record(path, FailureRecord(strikes=strikes[-16:]))
            self._bound()
        self._unwritten.pop(key, None)

    def _bound(self) -> None:
        keys = self.known()
        if len(keys) > MOST_KEYS:
            youngest = {key: min((one.age_ns for one in self.of(key)), default=1 << 63) for key in keys}
            for key in sorted(keys, key=lambda one: youngest[one])[MOST_KEYS:]:
                remove_whatever(self._path(key))

    def _path(self, key: str) -> Path:
        return self.folder.failures / f"{require_key(key)}.json"

    def _strike(self, kind: Kind, reason: str, nbytes: int = 0) -> Strike:
        now = self._now()
        return Strike(
            kind=kind,
            reason="".join(sign if sign.isprintable() else " " for sign in reason)[:1000],
            nbytes=nbytes,
            seen_ns=now.boottime_ns,
            boot_id=now.wall.boot_id[:64],
            unix_ns=now.wall.unix_ns,
            synced=now.wall.synced,
        )

    def _now(self) -> Now:
        return Now(self.clock.boottime_ns(), self.clock.wall())
