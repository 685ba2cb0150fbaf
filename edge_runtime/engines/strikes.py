"""What went wrong with a key, and whether it may be built all the same: pure decisions over what is remembered.

A device has no trustworthy clock after a reboot, so the age of a failure is the time that surely went by: on the
boot clock within a boot, and the uptime of later boots after it. The wall clock counts between boots where it was
synchronised both times. A device that reboots every few minutes therefore does not build each time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Final

from pydantic import Field

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.engines.records import Record

EXPIRY_S: Final = 24 * 3600
"""After this long a key may be tried anew: the cause may have been a full memory or a full disk."""


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

MOST_WITHOUT_ROOM: Final = 3
"""So many builds in `EXPIRY_S` may end without room, though there seemed to be some when they were begun."""

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
        nbytes: of the engine that had no room; 0 where room is not all that it lacked.
        age_ns: how old it surely was at `seen_ns`.
        seen_ns: boot clock of `boot_id`.
        unix_ns: the wall clock when it happened; a label, unless `synced` then and now.
    """

    kind: Annotated[Kind, Field(strict=False)]
    reason: Annotated[str, Field(max_length=1000)]
    nbytes: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
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
            sooner = ", or at a start that finds room" if _waits_for_room(of_kind) else ""
            return f"{told}; it is tried again after {_hours(left_s)} of uptime{sooner}"
    return None


def with_room(strikes: tuple[Strike, ...], has_room: Callable[[int], bool]) -> tuple[Strike, ...]:
    """The strikes that count where there is room now for some of what had none.

    Args:
        strikes: aged.
        has_room: whether there is room for an engine of so many bytes.
    """
    lacked = [strike for strike in strikes if strike.kind is Kind.NO_ROOM]
    if not _waits_for_room(lacked) or not has_room(lacked[-1].nbytes):
        return strikes
    return tuple(strike for strike in strikes if strike.kind is not Kind.NO_ROOM)


def _waits_for_room(lacked: Sequence[Strike]) -> bool:
    """Whether room would change anything: a size is known, and it was not tried in vain too often."""
    return 0 < len(lacked) < MOST_WITHOUT_ROOM and lacked[-1].nbytes > 0


def with_strike(strikes: tuple[Strike, ...], strike: Strike) -> tuple[Strike, ...]:
    """One more; a build that failed is not unfinished, and an engine that is taken out kills nobody any more."""
    if strike.kind in (Kind.FAILED, Kind.NO_ROOM):
        strikes = without_last(strikes, Kind.UNFINISHED)
    if strike.kind is Kind.QUARANTINED:
        strikes = tuple(one for one in strikes if one.kind is not Kind.LOADING)
    return (*strikes, strike)


def without_last(strikes: tuple[Strike, ...], kind: Kind) -> tuple[Strike, ...]:
    """Without the newest of a kind."""
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
