"""The roles of the repository, who may hold their keys, and how long what they sign is good."""

from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from enum import Enum
from typing import Final

from edge_runtime.protocol.metadata_limits import (
    MAX_ROOT_BYTES,
    MAX_SNAPSHOT_BYTES,
    MAX_TARGETS_BYTES,
    MAX_TIMESTAMP_BYTES,
)
from edge_runtime.protocol.release import ReleaseKind
from edge_runtime.protocol.update import DIRECTOR_ROLE

ROOT, TARGETS, SNAPSHOT, TIMESTAMP, DIRECTOR = "root", "targets", "snapshot", "timestamp", DIRECTOR_ROLE
RELEASE_ROLES: Final = tuple(kind.role for kind in ReleaseKind)
"""`models` and `configurations`: each target of theirs needs two signatures, of its builder and of its approver."""

OFFLINE_ROLES: Final = (ROOT, TARGETS, *RELEASE_ROLES)
"""Signed by people, in the order in which each vouches for the next."""

ONLINE_ROLES: Final = (SNAPSHOT, TIMESTAMP, DIRECTOR)
"""Signed by the server, with keys of its own."""

THRESHOLD: Final = 2
"""Signatures that everything needs which people sign."""

PATHS: Final[Mapping[str, list[str]]] = {
    **{role: [f"{role}/*/*/*"] for role in RELEASE_ROLES},
    DIRECTOR: [f"{DIRECTOR}/*"],
}
"""The targets for which a delegated role may speak. The director's are none that exist: it is there for its key."""

MAX_BYTES: Final[Mapping[str, int]] = {
    ROOT: MAX_ROOT_BYTES,
    **dict.fromkeys((TARGETS, *RELEASE_ROLES), MAX_TARGETS_BYTES),
    SNAPSHOT: MAX_SNAPSHOT_BYTES,
    TIMESTAMP: MAX_TIMESTAMP_BYTES,
}
"""What a device reads at most of each."""

FULL_BYTES: Final = 1_300_000
"""No release is added to metadata that would be longer. A device has to verify all of it at its first judgement of
a process: the terms of 1,000 releases are 1.2 MB, and take it up to 50 ms."""

MOST_ROOTS: Final = 200
"""A device follows so many rotations of the root from the one it was given; tuf's client stops at 256."""

DAY_MS: Final = 86_400_000


class Duty(str, Enum):
    """What a person's key signs."""

    ROOT = "root"
    TARGETS = "targets"
    RELEASE = "release"


class Preset(str, Enum):
    """How keys are spread over people.

    Attributes:
        SINGLE: one person with two keys. Nothing is approved by somebody else; a rotation makes a team of it.
        TEAM: three people or more with one key each, any two of whom must agree.
        OFFLINE: as a team, but each has a second key for root and targets, which lies in a safe.
    """

    SINGLE = "single"
    TEAM = "team"
    OFFLINE = "offline"

    def keys(self) -> tuple[tuple[Duty, ...], ...]:
        """What the keys of one person are for, key by key."""
        everything = tuple(Duty)
        return {
            Preset.SINGLE: (everything, everything),
            Preset.TEAM: (everything,),
            Preset.OFFLINE: ((Duty.ROOT, Duty.TARGETS), (Duty.RELEASE,)),
        }[self]


def life_days(role: str, holders: Collection[str]) -> int:
    """Days for which a role's metadata is good once it is signed.

    Args:
        role: of people.
        holders: of its keys. One person alone must not lose the fleet over a long holiday.
    """
    if len(set(holders)) <= 1:
        return 730 if role == ROOT else 365
    return {ROOT: 365, TARGETS: 180}.get(role, 90)


def warning_days(role: str) -> int:
    """Days before the end at which somebody has to be told: enough to bring two people together."""
    return {ROOT: 60, TARGETS: 45}.get(role, 30)


def moment(ms: int) -> datetime:
    """Milliseconds since 1970 as TUF wants it, in UTC and to the second."""
    return datetime.fromtimestamp(ms // 1000, tz=timezone.utc)


def milliseconds(when: datetime) -> int:
    """The reverse of `moment`."""
    return int(when.timestamp()) * 1000
