"""What went wrong with a key, across restarts: an engine is built again once, and not at every start for ever.

A device has no trustworthy clock after a reboot, so the age of a failure is the time that surely went by: on the
boot clock within a boot, and the uptime of later boots after it. The wall clock counts between boots where it was
synchronised both times. A device that reboots every few minutes therefore does not build each time.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Final

from pydantic import Field

from edge_runtime.clock import NS_PER_S, Clock, WallLabel
from edge_runtime.engines.errors import StoreBusy, StoreUnusable
from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.records import Record, names_in, read_record, remove_whatever, write_record

EXPIRY_S: Final = 24 * 3600
"""After this long a key may be tried anew: the cause may have been a full memory or a full disk."""

MOST_KEYS: Final = 256
_REANCHOR_NS: Final = 3600 * NS_PER_S


class Kind(str, Enum):
    """What went wrong."""

    FAILED = "failed"
    """A build ended without an engine."""

    QUARANTINED = "quarantined"
    """An engine was taken out of use."""

    UNFINISHED = "unfinished"
    """A build was begun, and nobody said how it ended: the process was killed, or the power went."""

    NO_ROOM = "no_room"
    """A build gave an engine, and the store had no room for it."""

    LOADING = "loading"
    """The engine was being loaded, and nobody said how that ended: it may have taken the process with it."""


LIMITS: Final = {Kind.FAILED: 1, Kind.NO_ROOM: 1, Kind.QUARANTINED: 2, Kind.UNFINISHED: 3}
"""How many of a kind within `EXPIRY_S` end the building of a key: the first engine that is taken out of use is
rebuilt, and a power cut in a build is no proof against it."""

MOST_DEATHS: Final = 3
"""So many processes may end while they load an engine: one may be killed by chance, or by a power cut."""

DEADLY: Final = "ended while loading it"
"""In the reason of an engine that was taken out of use for that. The one that is built in its place gets a single
try: the guard calls more than five ends in ten minutes a crash loop, and keeps the device from moving."""


class Strike(Record):
    """One thing that went wrong.

    Attributes:
        kind: what.
        reason: a sentence.
        age_ns: how old it surely was at `seen_ns`.
        seen_ns: boot clock of `boot_id`.
        unix_ns: the wall clock when it happened; a label, unless `synced` then and now.
    """

    kind: Annotated[Kind, Field(strict=False)]
    reason: Annotated[str, Field(max_length=1000)]
    age_ns: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    seen_ns: Annotated[int, Field(ge=0, lt=1 << 63)]
    boot_id: Annotated[str, Field(max_length=64)]
    unix_ns: Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)]
    synced: bool


class FailureRecord(Record):
    """All that went wrong with one key and still counts."""

    strikes: Annotated[tuple[Strike, ...], Field(max_length=32)]


@dataclass(frozen=True, slots=True)
class Now:
    """The clocks, read together."""

    boottime_ns: int
    wall: WallLabel


def aged(strike: Strike, now: Now) -> Strike:
    """The same strike with the age that it surely has now."""
    if strike.boot_id == now.wall.boot_id:
        age_ns = strike.age_ns + max(0, now.boottime_ns - strike.seen_ns)
    else:
        age_ns = strike.age_ns + now.boottime_ns
        if strike.synced and now.wall.synced:
            age_ns = max(age_ns, now.wall.unix_ns - strike.unix_ns)
    return strike.model_copy(
        update={"age_ns": min(age_ns, (1 << 63) - 1), "seen_ns": now.boottime_ns, "boot_id": now.wall.boot_id}
    )


def refusal_of(strikes: Iterable[Strike]) -> str | None:
    """Why a key with these strikes is not built; None where it may be. The strikes are aged."""
    counted = [strike for strike in strikes if strike.age_ns < EXPIRY_S * NS_PER_S]
    for kind, limit in LIMITS.items():
        of_kind = [strike for strike in counted if strike.kind is kind]
        if len(of_kind) >= limit:
            left_s = EXPIRY_S - max(of_kind[-limit:], key=lambda strike: strike.age_ns).age_ns / NS_PER_S
            told = f"{_told(kind, len(of_kind))}: {of_kind[-1].reason}"
            return f"{told}; it is tried again after {_hours(left_s)} of uptime"
    return None


@dataclass
class Failures:
    """The memory of failures.

    Args:
        folder: of the store.
        clock: of the device.
    """

    folder: StoreFolder
    clock: Clock
    _unwritten: dict[str, tuple[Strike, ...]] = field(default_factory=dict)

    def of(self, key: str) -> tuple[Strike, ...]:
        """What went wrong with a key and still counts, oldest first; a damaged record counts as none."""
        try:
            record = read_record(FailureRecord, self.folder.failures / f"{key}.json")
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
        written = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        return tuple(sorted(written | set(self._unwritten)))

    def refusal(self, key: str) -> str | None:
        """Why a key is not built, a sentence; None where it may be."""
        return refusal_of(self.of(key))

    def begin(self, key: str) -> None:
        """Write down that a build begins, before it does.

        Raises:
            StoreUnusable: it cannot be written down; a build that kills the device would not be remembered.
            StoreBusy: another process holds the store.
        """
        with self.folder.owned(), self.folder.explained():
            self._write(
                key, (*self.of(key), self._strike(Kind.UNFINISHED, "the build did not come to its end"))
            )

    def note(self, key: str, kind: Kind, reason: str) -> None:
        """Remember that something went wrong; where it cannot be written, this process remembers it.

        Args:
            key: of the recipe.
            kind: a failed build takes the place of the unfinished one.
            reason: a sentence.
        """
        strike = self._strike(kind, reason)
        self._change(key, lambda strikes: _with(strikes, strike))

    def note_owned(self, key: str, kind: Kind, reason: str) -> None:
        """The same as `note`, for a caller that holds the store's lock."""
        self._keep_owned(key, _with(self.of(key), self._strike(kind, reason)))

    def built_owned(self, key: str) -> None:
        """A build gave an engine: only what was taken out of use still counts. The caller holds the lock."""
        strikes = self.of(key)
        left = tuple(strike for strike in strikes if strike.kind is Kind.QUARANTINED)
        if left != strikes:
            self._keep_owned(key, left)

    def called_off(self, key: str) -> None:
        """A build was ended on purpose: it says nothing about the key."""
        self._change(key, lambda strikes: _without_last(strikes, Kind.UNFINISHED))

    def deaths(self, key: str) -> int:
        """How many processes ended while they loaded the engine of a key."""
        return sum(strike.kind is Kind.LOADING for strike in self.of(key))

    def most_deaths(self, key: str) -> int:
        """How many processes may end while they load the engine of a key."""
        again = any(one.kind is Kind.QUARANTINED and DEADLY in one.reason for one in self.of(key))
        return 1 if again else MOST_DEATHS

    def loaded(self, key: str) -> None:
        """The engine was loaded, or refused: this process lives."""
        self._change(key, lambda strikes: _without_last(strikes, Kind.LOADING))

    def forget(self, key: str | None = None) -> None:
        """Forget what went wrong with a key, or with all.

        Raises:
            StoreUnusable: the record cannot be removed.
            StoreBusy: another process holds the store.
        """
        with self.folder.owned(), self.folder.explained():
            for one in self.known() if key is None else (key,):
                self._unwritten.pop(one, None)
                remove_whatever(self.folder.failures / f"{one}.json")

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
            record = read_record(FailureRecord, self.folder.failures / f"{key}.json")
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
        path = self.folder.failures / f"{key}.json"
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
                remove_whatever(self.folder.failures / f"{key}.json")

    def _strike(self, kind: Kind, reason: str) -> Strike:
        now = self._now()
        return Strike(
            kind=kind,
            reason="".join(sign if sign.isprintable() else " " for sign in reason)[:1000],
            seen_ns=now.boottime_ns,
            boot_id=now.wall.boot_id[:64],
            unix_ns=now.wall.unix_ns,
            synced=now.wall.synced,
        )

    def _now(self) -> Now:
        return Now(self.clock.boottime_ns(), self.clock.wall())


def _with(strikes: tuple[Strike, ...], strike: Strike) -> tuple[Strike, ...]:
    """One more; a build that failed is not unfinished, and an engine that is taken out kills nobody any more."""
    if strike.kind in (Kind.FAILED, Kind.NO_ROOM):
        strikes = _without_last(strikes, Kind.UNFINISHED)
    if strike.kind is Kind.QUARANTINED:
        strikes = tuple(one for one in strikes if one.kind is not Kind.LOADING)
    return (*strikes, strike)


def _without_last(strikes: tuple[Strike, ...], kind: Kind) -> tuple[Strike, ...]:
    at = max((index for index, strike in enumerate(strikes) if strike.kind is kind), default=len(strikes))
    return strikes[:at] + strikes[at + 1 :]


def _told(kind: Kind, times: int) -> str:
    if kind is Kind.QUARANTINED:
        return f"its engines were taken out of use {times} times"
    if kind is Kind.NO_ROOM:
        return "there was no room for it"
    if kind is Kind.UNFINISHED:
        return f"{times} builds of it did not come to their end"
    return "its build failed"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds >= 5400 else f"{max(seconds, 60) / 60:.0f} min"
